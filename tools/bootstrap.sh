#!/bin/sh
# Make .venv from this Python version's lock, or find that it is made already.
# PYTHON=/path/to/python chooses the interpreter; otherwise an environment that
# is there stays, then the machine's python3, then any other from newer to older.
set -eu
cd "$(dirname "$0")/.."

# Prints "3.12" where $1 runs, can make environments and has a lock.
supported() {
    found=$("$1" -c 'import ensurepip, sys, venv
print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || return 0
    if [ -f "requirements-lock-$found.txt" ]; then echo "$found"; fi
}

versions=$(ls requirements-lock-*.txt | sed 's/.*lock-\(.*\)\.txt/\1/' |
    sort -t. -k2 -nr)

choose() {
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- .venv/bin/python python3
        for v in $versions; do
            set -- "$@" "python$v" \
                "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$v".*/bin/python
        done
    fi
    for candidate; do
        if [ -n "$(supported "$candidate")" ]; then echo "$candidate"; return; fi
    done
    echo "annotated_ssm needs Python" $versions "with its venv module (any one of" \
        "these): install one, or name one: make PYTHON=/path/to/python" >&2
    return 1
}

python=$(choose)
version=$(supported "$python")
lock=requirements-lock-$version.txt
# What the environment, and the package's metadata in it, are made from.
environment="$version $PWD $(cat "$lock" | cksum)"
package="$environment $(cat settings.ini pyproject.toml hatch_build.py | cksum)"

pip() { .venv/bin/python -m pip --disable-pip-version-check -qq "$@"; }

if [ "$(cat .venv/environment 2>/dev/null)" != "$environment" ] ||
    [ "$(supported .venv/bin/python)" != "$version" ]; then
    echo "making .venv: Python $version, $lock (some minutes, once)"
    if [ "$python" = .venv/bin/python ]; then
        # Made anew by the interpreter that it came from, not by itself.
        python=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
    fi
    "$python" -m venv --clear .venv
    pip install --require-hashes --no-deps -r "$lock"
    printf '%s' "$environment" > .venv/environment
fi
if [ "$(cat .venv/package 2>/dev/null)" != "$package" ]; then
    pip install --no-deps --no-build-isolation --editable .
    printf '%s' "$package" > .venv/package
fi
