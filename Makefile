## Two commands need make, Python 3.11, 3.12 or 3.13, a network, 2 GB of disk:
##   make site       build the website, and say where it is: a quarter of an hour
##   make test       run everything that CI runs: about an hour on two
##                   cores; Chromium is installed with apt, or you are told how
## PYTHON=/path/to/python chooses the interpreter. The others:

.PHONY: help site test serve export readme outputs bench results nightly lock test-data env chromium clean
help:
	@sed -n 's/^## \{0,1\}//p' Makefile

PY := .venv/bin/python
SITE := docs/_build/html
PORT ?= 8000
# These need the executed notebooks and a browser, or environments of their own.
EXECUTED := tests/test_outputs.py tests/browser
PACKAGED := tests/test_packaging.py
# Tests compile tens of thousands of small programs and run each once: compiled
# by the quickest means, they take half the time. The notebooks run as users'
# programs do, and once more from the wheel, compiled more quickly.
QUICK := XLA_FLAGS=--xla_cpu_use_fusion_emitters=false
TESTS := $(QUICK) JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PY) -m pytest -q -n 2 --dist worksteal
# Shapes and dtypes of annotated functions are checked while the tests run.
CHECKED := --jaxtyping-packages=annotated_ssm,beartype.beartype

# The machine's settings don't change what is built, and what is built leaves
# nothing in the home directory: caches live in build/.
export PYTHONUTF8 := 1
export XDG_CACHE_HOME ?= $(CURDIR)/build/cache
export MPLCONFIGDIR := $(CURDIR)/build/cache/matplotlib
export IPYTHONDIR := $(CURDIR)/build/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/build/jupyter/config
export JUPYTER_DATA_DIR := $(CURDIR)/build/jupyter/data
export JUPYTER_RUNTIME_DIR := $(CURDIR)/build/jupyter/runtime
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP MPLBACKEND JUPYTER_PATH
unexport IN_TEST JAX_ENABLE_X64

site: export
	@$(PY) tools/execute.py
	$(PY) tools/build_site.py

##   make serve      the website on http://localhost:8000 (PORT=...)
serve: site
	$(PY) -m http.server --bind localhost --directory $(SITE) $(PORT)

test: env chromium
	$(TESTS) tests/errors
	JAX_ENABLE_X64=1 $(TESTS) tests/float64 $(CHECKED)
	$(TESTS) tests $(CHECKED) \
	  $(patsubst %,--ignore %,tests/errors tests/float64 tests/data $(EXECUTED) $(PACKAGED))
	rm -rf docs/_build/src
	$(PY) -m pytest nbs $(EXECUTED) $(CHECKED)
	$(QUICK) $(PY) -m pytest $(PACKAGED)

##   make test-data  the tests that read real series from ANNOTATED_SSM_DATA
test-data: env
	$(PY) -m pytest tests/data $(CHECKED)

##   make export     annotated_ssm/ from the notebooks, and README.md
export: env
	.venv/bin/nbdev_export
	$(PY) tools/readme.py

##   make readme     README.md from nbs/index.ipynb
readme: env
	$(PY) tools/readme.py

##   make outputs    the executed notebooks' outputs into nbs/, for readers on GitHub
outputs: site
	$(PY) tools/outputs.py
	$(PY) tools/readme.py

##   make bench      time and memory against peers, into results/benchmarks/
bench: env
	$(PY) -m uv --system-certs pip install --quiet --target build/peers \
		--no-deps --python-version 3.12 -r benchmarks/peers.txt
	PYTHONPATH=build/peers $(PY) -m benchmarks.kernels
	PYTHONPATH=build/peers $(PY) -m benchmarks.layers
	PYTHONPATH=build/peers $(PY) -m benchmarks.scans
	PYTHONPATH=build/peers $(PY) -m benchmarks.compilation
	PYTHONPATH=build/peers $(PY) -m benchmarks.baselines
	PYTHONPATH=build/peers $(PY) -m benchmarks.generation
	PYTHONPATH=build/peers $(PY) -m benchmarks.runtime

##   make results    measure what is missing of results/experiments: hours; stop and
##                   start it as you like, it goes on
results: env
	$(PY) tools/results.py

##   make nightly    one seed of the cheapest result of each table
nightly: env
	rm -rf build/nightly
	$(PY) tools/results.py --nightly --out build/nightly

##   make lock       the four lock files anew, from settings.ini
lock: env
	$(PY) tools/lock.py

##   make clean      all that make has built
clean:
	rm -rf .venv build dist docs/_build .pytest_cache .hypothesis

env:
	@sh tools/bootstrap.sh

chromium:
	@sh tools/chromium.sh
