"""Public reports about scans, states, time, padding and JAX's own traps.

`REPORTS` says which test answers which report, as other people met it in other
implementations: one test for the whole kind, that is for every layer, method and
direction where it could occur. The tests below are those that had no other home.
"""

import ast
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import types
import warnings

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jaxprs import arrays, equations
from repository import MODULES, NOTEBOOKS, ROOT, cells, tracked_files
from test_repository import COLAB_CELL, code_of

from annotated_ssm import bank, baselines, hippo, nplr, s4, s4d, s5, scan
from annotated_ssm.attention import LinearAttention
from annotated_ssm.baselines import LSSL
from annotated_ssm.layers import DSS, S4, S4D, S5
from annotated_ssm.recurrent import GRU, LSTM

HERE = "tests/test_reports.py"
DOUBLE = "tests/float64/test_reports.py"
REPORTS = {
    # convolution and recurrence
    "srush/annotated-s4#74": "tests/float64/test_s4.py::test_C_is_never_conjugated",
    "srush/annotated-s4#43": "tests/float64/test_stacks.py::"
                             "test_every_way_of_running_a_stack",
    "srush/annotated-s4#48": f"{DOUBLE}::test_no_output_knows_the_future",
    "state-spaces/s4#103": f"{DOUBLE}::test_no_output_knows_the_future",
    "state-spaces/s4#104": "tests/test_state_space.py::"
                           "test_convolution_equals_the_sum",
    "HazyResearch/safari#4": f"{DOUBLE}::test_no_output_knows_the_future",
    "srush/annotated-s4#59": "tests/test_s4.py::"
                             "test_memory_of_the_compiled_convolution",
    "jax-ml/jax#11007": f"{HERE}::"
                        "test_real_pairs_need_no_more_memory_than_complex_numbers",
    "state-spaces/s4#51": "tests/test_s4d.py::"
                          "test_memory_is_a_small_part_of_the_vandermonde_matrix",
    # complex numbers
    "state-spaces/s4#160": f"{HERE}::test_an_odd_size_loses_no_state",
    "google-deepmind/optax#196": f"{DOUBLE}::test_gradients_are_real_and_lead_downhill",
    "google-deepmind/optax#287": f"{DOUBLE}::test_gradients_are_real_and_lead_downhill",
    "google/jaxopt#169": f"{DOUBLE}::test_gradients_are_real_and_lead_downhill",
    "netket/netket#1009": f"{DOUBLE}::test_gradients_are_real_and_lead_downhill",
    # state and length
    "state-spaces/s4#52": f"{DOUBLE}::test_a_loop_of_steps_is_the_call",
    "state-spaces/s4#115": f"{DOUBLE}::test_a_loop_of_steps_is_the_call",
    "state-spaces/s4#135": "tests/test_layers.py::"
                           "test_a_sequence_longer_than_in_training_is_not_cut",
    "state-spaces/s4#158": f"{HERE}::test_a_stream_keeps_nothing_but_its_state",
    "state-spaces/s4#122": "tests/test_s4.py::test_shorter_and_longer_than_in_training",
    "state-spaces/s4#96": "tests/float64/test_nplr.py::test_the_step_is_the_dense_step",
    "lindermanlab/S5#4": "tests/float64/test_s5.py::"
                         "test_step_by_step_equals_the_scan",
    "lindermanlab/S5#19": f"{DOUBLE}::"
                          "test_state_of_one_layer_is_never_another_layers",
    "lindermanlab/S5#20": f"{DOUBLE}::"
                          "test_state_of_one_layer_is_never_another_layers",
    "lindermanlab/S5#21": f"{DOUBLE}::"
                          "test_state_of_one_layer_is_never_another_layers",
    "state-spaces/mamba#146": f"{DOUBLE}::test_a_loop_of_steps_is_the_call",
    "state-spaces/mamba#806": "tests/float64/test_scan.py::"
                              "test_values_and_gradients_are_those_of_the_loop",
    "johnma2006/mamba-minimal#19": "tests/float64/test_s5.py::test_oracle",
    "johnma2006/mamba-minimal#11": f"{DOUBLE}::test_a_token_is_one_step",
    "NicolasZucchet/minimal-LRU#1": f"{HERE}::test_matrices_are_associative_too",
    "NicolasZucchet/minimal-LRU#3": f"{HERE}::test_matrices_are_associative_too",
    # padding
    "state-spaces/s4#55": f"{DOUBLE}::test_mixed_lengths_in_a_batch",
    "state-spaces/s4#86": f"{DOUBLE}::test_mixed_lengths_in_a_batch",
    "state-spaces/mamba#236": "tests/test_models.py::"
                              "test_padded_batch_equals_each_sequence_alone",
    # irregular time
    "lindermanlab/S5#13": f"{DOUBLE}::test_intervals_belong_to_their_own_sequence",
    "i404788/s5-pytorch#7": f"{HERE}::test_no_layer_makes_a_matrix_for_each_sample",
    # JAX
    "jax-ml/jax#14190": f"{DOUBLE}::test_every_method_is_the_scan_of_jax",
    "pytorch/pytorch#95408": f"{DOUBLE}::test_every_method_is_the_scan_of_jax",
    "keras-team/keras#19904": f"{DOUBLE}::test_every_method_is_the_scan_of_jax",
    "jax-ml/jax#19498": f"{DOUBLE}::test_a_derivative_costs_a_few_scans",
    "jax-ml/jax#29313": f"{DOUBLE}::test_reversed_time_swaps_the_directions",
    "triton-lang/triton#4362": "tests/test_scan.py::"
                               "test_reverse_pairs_each_coefficient_with_its_own_input",
    "jax-ml/jax#25687": f"{HERE}::test_no_backend_finds_eigenvalues",
    "jax-ml/jax#1259": f"{HERE}::test_no_backend_finds_eigenvalues",
    "jax-ml/jax#27265": f"{HERE}::test_no_backend_finds_eigenvalues",
    "jax-ml/jax#32641": f"{HERE}::test_starts_are_the_same_whatever_jax_is_set_to",
    "jax-ml/jax#7009": f"{HERE}::test_auto_is_a_loop_on_a_cpu_and_a_tree_elsewhere",
    "luchris429/popjaxrl#1": f"{HERE}::test_names_of_jax_are_public_and_present",
    "jax-ml/jax#16902": f"{HERE}::test_names_of_jax_are_public_and_present",
    "Naruki-Ichihara/feax#3": f"{HERE}::test_names_of_jax_are_public_and_present",
    "waymo-research/waymax#77": f"{HERE}::test_names_of_jax_are_public_and_present",
    "google/flax#2822": f"{HERE}::test_mappings_of_flax_are_plain",
    "google/flax#2872": f"{HERE}::test_mappings_of_flax_are_plain",
    "google/flax#2861": f"{HERE}::test_the_colab_cell_notices_another_jax",
    "google/flax#2950": f"{HERE}::test_the_colab_cell_notices_another_jax",
    "bold-lab/JaxMARL#161": f"{HERE}::test_the_colab_cell_notices_another_jax",
    "lanl/scico#394": f"{HERE}::test_the_colab_cell_notices_another_jax",
    "alxndrTL/mamba.py#26": "tests/test_scan.py::"
                            "test_each_method_is_the_loop_within_rounding",
    "alxndrTL/mamba.py#42": "tests/test_scan.py::test_work_and_depth_as_counted",
    "alxndrTL/mamba.py#46": "tests/test_scan.py::"
                            "test_prefixes_of_an_operator_that_does_not_commute",
    "alxndrTL/mamba.py#57": f"{HERE}::"
                            "test_auto_is_a_loop_on_a_cpu_and_a_tree_elsewhere",
    "radarFudan/mamba-minimal-jax#1": f"{DOUBLE}::"
                                      "test_every_scan_trains_a_padded_uneven_model",
    "srush/annotated-mamba#1": f"{DOUBLE}::"
                               "test_every_scan_trains_a_padded_uneven_model",
}


def functions(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("report", REPORTS)
def test_every_report_has_its_test(report):
    path, _, name = REPORTS[report].partition("::")
    assert name.startswith("test_") and name in functions(path)


# Scans


class Matrix:
    """A matrix of whole numbers whose * is the matrix product."""

    def __init__(self, rows):
        self.rows = np.array(rows, dtype=object)

    def __mul__(self, other):
        return Matrix(self.rows @ other.rows)

    def __add__(self, other):
        return Matrix(self.rows + other.rows)

    def __eq__(self, other):
        return np.array_equal(self.rows, other.rows)


def test_matrices_are_associative_too():
    """NicolasZucchet/minimal-LRU#1, #3: a dense A can be scanned; it is dear."""
    rng = np.random.default_rng(0)
    draw = lambda columns: Matrix(rng.integers(-9, 10, (3, columns)).tolist())
    for L in 1, 2, 3, 5, 8, 13:
        steps = [(draw(3), draw(1)) for _ in range(L)]
        x, states = Matrix(np.zeros((3, 1), int).tolist()), []
        for A, b in steps:
            x = A * x + b
            states.append(x)
        for tree in (scan.scan_sequential, scan.scan_hillis_steele,
                     scan.scan_blelloch):
            assert [b for _, b in tree(scan.combine, steps)] == states
    f, g, h = steps[:3]
    left = scan.combine(scan.combine(f, g), h)
    assert left == scan.combine(f, scan.combine(g, h))
    # no matrix may be swapped with another
    assert left != scan.combine(scan.combine(g, f), h)
    A, b = (rng.standard_normal((13, 3, n)).astype(np.float32) for n in (3, 1))
    states = jax.lax.associative_scan(
        lambda e, l: (l[0] @ e[0], l[0] @ e[1] + l[1]), (A, b))[1]
    x, bound = np.zeros((3, 1)), np.zeros((3, 1))
    for A_k, b_k, got in zip(A.astype(float), b.astype(float), states):
        x, bound = A_k @ x + b_k, np.abs(A_k) @ bound + np.abs(b_k)
        # every term is a product of at most 13 matrices, in any order
        assert (np.abs(got - x) <= 13 * 4 * np.finfo(np.float32).eps * bound).all()


def primitives(function, *arguments):
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    return {equation.primitive.name for equation in equations(jaxpr)}


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_auto_is_a_loop_on_a_cpu_and_a_tree_elsewhere(backend, monkeypatch):
    """jax-ml/jax#7009; mamba.py#57: a loop starts its few operations once a sample,
    which a GPU is slow at and a CPU is not."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    layer = S5(3, 4, rngs=nnx.Rngs(0))
    u, steps = np.ones((2, 8, 3), np.float32), np.ones((2, 8), np.float32)
    b = np.ones((8, 4), np.float32)
    runs = [(lambda b: scan.linear_scan(b[0], b), b),
            (lambda b: scan.linear_scan(b, b, reverse=True), b),
            (lambda u: layer(u)[0], u), (lambda u: layer(u, steps)[0], u)]
    for function, argument in runs:
        assert ("scan" in primitives(function, argument)) == (backend == "cpu")


# Arrays and memory


H, L, N, BATCH = 7, 41, 26, 3
SSM = {
    "S5": functools.partial(S5, P=N),
    **{f"S5 {method}": functools.partial(S5, P=N, scan_method=method)
       for method in ("sequential", "associative", "chunked")},
    "S4": functools.partial(S4, N=N), "S4D": functools.partial(S4D, N=N),
    "DSS": functools.partial(DSS, N=N),
}


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("timed", [False, True], ids=["regular", "uneven"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("name", SSM)
def test_no_layer_makes_a_matrix_for_each_sample(name, bidirectional, timed, masked):
    """i404788/s5-pytorch#7: no (L, P, H), with an interval for each sample or not.

    Sizes are distinct primes (times 2), so that shapes tell who is who.
    """
    layer = SSM[name](H, bidirectional=bidirectional, rngs=nnx.Rngs(0))
    u = jnp.zeros((BATCH, L, H))
    steps = jnp.ones((BATCH, L)) if timed else None
    mask = jnp.ones((BATCH, L), bool) if masked else None
    run = lambda u: layer(u, steps, mask)[0].sum()
    # the gradient of a bank's loop keeps its states, which have these sizes
    ways = [run] if timed and not name.startswith("S5") else [run, jax.grad(run)]
    for function in ways:
        seen = [shape for shape, _ in arrays(function, u)]
        assert any(L in shape for shape in seen)
        for shape in seen:
            assert not (L in shape and H in shape and {N, N // 2} & set(shape)), shape


CORES = {
    "S4": (functools.partial(S4, N=64), s4.apply_ssm),
    "S4D": (functools.partial(S4D, N=64), bank.apply_ssm),
    "DSS": (functools.partial(DSS, N=64), bank.apply_ssm),
    "S5": (functools.partial(S5, P=64), s5.apply_ssm),
}


@pytest.mark.parametrize("name", CORES)
def test_real_pairs_need_no_more_memory_than_complex_numbers(name):
    """jax-ml/jax#11007: how the parameters of a product and sum were kept decided
    whether the array between the two was. The gradient by the layer's parameters,
    which are real, and by the complex ones they stand for: neither stores the
    complex states (half of them) of all samples and features."""
    length, features = 1024, 8
    make, apply_ssm = CORES[name]
    layer = make(features, rngs=nnx.Rngs(0))
    graph, pairs = nnx.split(layer)
    system, u = layer.dynamics(), jnp.zeros((1, length, features))
    assert any(jnp.iscomplexobj(a) for a in system)
    states = 8 * length * features * 64 / 2
    for loss, given in [
            (lambda given: nnx.merge(graph, given)(u)[0].sum(), pairs),
            (lambda given: apply_ssm(*given, u[0])[0].sum(), system)]:
        compiled = jax.jit(jax.grad(loss)).lower(given).compile()
        used = compiled.memory_analysis().temp_size_in_bytes
        assert 0 < used < 0.75 * states


ODD = {
    **{f"S5 {init}": functools.partial(S5, P=5, init=init) for init in s5.INITS},
    "S5 blocks": functools.partial(S5, P=6, blocks=2),
    **{f"S4 {measure}": functools.partial(S4, N=5, measure=measure)
       for measure in ("legs", "legt", "lagt", "fout")},
    **{f"S4D {init}": functools.partial(S4D, N=5, init=init)
       for init in ("legs", "lin", "inv", "real")},
    "DSS": functools.partial(DSS, N=5), "LSSL": functools.partial(LSSL, N=5),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_size_loses_no_state(name):
    """state-spaces/s4#160: half of five conjugate pairs is no number of states. A
    layer that stores its states one by one has five, each hears and is heard."""
    make = lambda: ODD[name](3, rngs=nnx.Rngs(0))
    if name not in ("S4D real", "LSSL"):
        with pytest.raises(ValueError, match="need.* an even"):
            make()
        return
    layer = make()
    rest = layer.init_state(1)
    assert rest.shape == (1, 3, 5)
    silence = np.zeros((1, 3), np.float32)
    _, x = layer.step(np.ones((1, 3), np.float32), rest)
    assert (np.asarray(x) != 0).all()
    for n in range(5):
        y, _ = layer.step(silence, rest.at[:, :, n].set(1))
        assert (np.asarray(y) != 0).all()


STREAMS = {
    "S5": functools.partial(S5, P=8), "S4": functools.partial(S4, N=8),
    "S4D": functools.partial(S4D, N=8), "DSS": functools.partial(DSS, N=8),
    "LSSL": functools.partial(LSSL, N=8), "GRU": GRU, "LSTM": LSTM,
    "linear attention": functools.partial(LinearAttention, heads=1),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_keeps_nothing_but_its_state(name):
    """state-spaces/s4#158: piece after piece through one program, and after 200
    no byte more is alive than after 20. (Attention's cache is another matter.)"""
    graph, params = nnx.split(STREAMS[name](4, rngs=nnx.Rngs(0)))
    traces = []

    @jax.jit
    def hear(params, u, state):
        traces.append(1)
        return nnx.merge(graph, params)(u, state=state)

    u = np.random.default_rng(0).normal(size=(2, 16, 4)).astype(np.float32)
    state = nnx.merge(graph, params).init_state(2)
    like = jax.tree.map(lambda a: (a.shape, a.dtype), state)
    alive = []
    for _ in range(200):
        y, state = hear(params, u, state)
        alive.append(sum(a.nbytes for a in jax.live_arrays()))
    assert len(traces) == 1 and alive[-1] == alive[20]
    assert jax.tree.map(lambda a: (a.shape, a.dtype), state) == like
    assert np.isfinite(y).all()


# A million steps

PIECE, PIECES, PERIOD = 4000, 250, 1024
WEIGHTS = np.array([1.0, 0.5], np.float32)


def listener():
    """An S5 system that reads a generated wave, piece i from a state."""
    p = s5.initialize(jax.random.key(11), 2, 16)
    B, C = (p[k][..., 0] + 1j * p[k][..., 1] for k in "BC")
    system = (p["Lambda_re"] + 1j * p["Lambda_im"], B, C, p["D"],
              jnp.exp(p["log_dt"]))

    def listen(i, x, **options):
        k = i * PIECE + jnp.arange(PIECE)
        wave = jnp.cos(jnp.float32(2 * np.pi / PERIOD) * (k % PERIOD))
        return s5.apply_ssm(*system, wave[:, None] * WEIGHTS, x0=x, **options)

    return system, listen


def heard(system, k):
    """The state after sample k in closed form, and its bound in float32.

    A step rounds a few times, and Λ̄ has the error of ΛΔ in its exponent; of
    all that, 1/(1 − |Λ̄|) steps are remembered.
    """
    Λ, B, _, _, dt = (np.asarray(z).astype(complex) for z in system)
    a = np.exp(Λ * dt)
    b, v = (a - 1) / Λ * (B @ WEIGHTS), np.exp(2j * np.pi / PERIOD)
    ways = [(w, b / 2 / (1 - a / w) * w**(k % PERIOD)) for w in (v, 1 / v)]
    exact = sum(way * (1 - (a / w)**(k + 1)) for w, way in ways)
    size = sum(np.abs(way) for _, way in ways)
    eps = np.finfo(np.float32).eps
    return exact, eps * (4 + np.abs(Λ * dt)) * size / (1 - np.abs(a))


@pytest.mark.parametrize("scan_method", scan.METHODS)
def test_a_million_steps_end_where_the_closed_form_does(scan_method):
    """And the program of a piece has no idea how many there were."""
    system, listen = listener()
    program = jax.jit(functools.partial(listen, scan_method=scan_method))
    rest = jnp.zeros(8, jnp.complex64)
    scratch = program.lower(0, rest).compile().memory_analysis().temp_size_in_bytes
    # so many copies of a piece's states: a tree keeps its levels, a, b and a² too
    assert scratch <= 16 * PIECE * 8 * 8
    x = rest
    for i in range(PIECES):
        _, x = program(i, x)
    exact, bound = heard(system, PIECE * PIECES - 1)
    # a tree squares: its error grows with the length of a piece, not of all
    tree = scan_method in ("associative", "time_invariant")
    assert (np.abs(x - exact) <= (4 if tree else 1) * bound).all()


def test_a_million_steps_in_one_program_without_a_large_array():
    system, listen = listener()
    rest = jnp.zeros(8, jnp.complex64)

    def all_pieces(pieces):
        return jax.lax.scan(lambda x, i: (listen(i, x)[1], None), rest,
                            jnp.arange(pieces))[0]

    sizes = [np.prod(shape) for shape, _ in arrays(lambda: all_pieces(PIECES))]
    assert max(sizes) <= 16 * PIECE
    run = jax.jit(all_pieces, static_argnums=0)
    few, many = (run.lower(n).compile().memory_analysis().temp_size_in_bytes
                 for n in (PIECES // 10, PIECES))
    assert many - few <= 8 * PIECES
    exact, bound = heard(system, PIECE * PIECES - 1)
    assert (np.abs(run(PIECES) - exact) <= bound).all()


PEAK = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from test_reports import PIECES, jax, jnp, listener
program, x = jax.jit(listener()[1]), jnp.zeros(8, jnp.complex64)
for i in range(PIECES):
    y, x = program(i, x)
    if i + 1 in (PIECES // 10, PIECES):
        x.block_until_ready()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_a_million_steps_need_no_more_memory_than_a_tenth():
    """The process's own peak: its states alone would take 58 MB."""
    result = subprocess.run(
        [sys.executable, "-c", PEAK, str(ROOT / "tests")], capture_output=True,
        text=True, check=True, cwd=ROOT)
    early, late = map(int, result.stdout.split())
    unit = 1 if sys.platform == "darwin" else 1024
    assert (late - early) * unit <= 4e6


# Backends


def starts():
    """name -> a function that draws parameters, all of them from HiPPO."""
    return {
        "s4": lambda key: s4.initialize(key, 3, 8),
        "s4 legt": lambda key: s4.initialize(key, 3, 8, "legt", tied=False),
        "s4 lagt": lambda key: s4.initialize(key, 3, 8, "lagt"),
        "s4 fout": lambda key: s4.initialize(key, 3, 8, "fout"),
        "s4d": lambda key: s4d.initialize(key, 3, 8),
        "s5": lambda key: s5.initialize(key, 3, 8, 2),
        "s5 variance": lambda key: s5.initialize(key, 3, 8, unit_variance=True),
        "lssl": lambda key: baselines.lssl_initialize(key, 3, 8),
    }


@pytest.mark.parametrize("name", starts())
def test_no_backend_finds_eigenvalues(name):
    """jax-ml/jax#25687, #1259, #27265: a GPU has no `eig`."""
    found = primitives(starts()[name], jax.random.key(0))
    assert found and not found & {"eig", "eigh", "svd", "schur", "qr", "cholesky",
                                  "lu", "hessenberg", "tridiagonal"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_eigenvalues_are_the_hosts(path):
    for name in dotted(ast.parse(path.read_text(encoding="utf-8"))):
        if name.startswith("jax.") and ".linalg." in name:
            assert name.rpartition(".")[2] in ("solve", "cond", "expm"), name


def tables():
    """Everything that comes from an eigenvalue problem or a measure."""
    for measure in ("legs", "legt", "lagt", "fout"):
        yield from hippo.transition(measure, 16)
        yield from nplr.nplr(measure, 16)
        for conj_sym in False, True:
            yield from nplr.dplr(measure, 16, conj_sym)
    for init in ("legs", "lin", "inv", "real"):
        yield s4d.initial_eigenvalues(init, 16)
    for init in s5.INITS[:3]:
        yield from s5.initial_modes(init, 16, 2)


STARTS = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_reports import tables
print(hashlib.sha256(b"".join(a.tobytes() for a in tables())).hexdigest())
"""


def test_starts_are_the_same_whatever_jax_is_set_to():
    """jax-ml/jax#32641: NumPy in double precision on the host, to the last bit;
    inside a traced function too, and with JAX's double precision on or off.

    JAX_PLATFORMS is unset, or names a processor that may not be there: then any
    use of JAX would be an error, and the tables are still the same. Not covered is
    what a GPU makes of them later, random numbers and sums in single precision.
    """
    def digest():
        found = list(tables())
        for a in found:
            assert type(a) is np.ndarray and a.dtype in (np.float64, np.complex128)
        return hashlib.sha256(b"".join(a.tobytes() for a in found)).hexdigest()

    inside = []
    jax.eval_shape(lambda x: inside.append(digest()) or x, 0.0)
    assert inside == [digest()]
    others = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    for x64, platforms in ("0", None), ("1", "cpu"), ("0", "gpu"), ("1", "tpu"):
        chosen = {"JAX_PLATFORMS": platforms} if platforms else {}
        result = subprocess.run(
            [sys.executable, "-c", STARTS, str(ROOT / "tests")], check=True, cwd=ROOT,
            capture_output=True, text=True,
            env=others | chosen | {"JAX_ENABLE_X64": x64})
        assert result.stdout.split() == inside


# Names that come and go

LIBRARIES = {"jax": jax, "flax": flax, "optax": optax}
FORBIDDEN = ("jax.tree_map", "jax.tree_leaves", "jax.tree_multimap",
             "jax.numpy.DeviceArray", "jax.interpreters", "jax.lib", "jax.linear_util",
             "jax.abstract_arrays", "jax.experimental.maps", "jax.experimental.pjit",
             "jax.experimental.host_callback", "flax.training.checkpoints",
             "flax.core", "flax.linen", "flax.optim")
SOURCES = [p for p in tracked_files() if p.suffix == ".py"] + NOTEBOOKS
each_source = pytest.mark.parametrize(
    "path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())


def dotted(tree):
    """Full dotted names of the libraries that a program uses."""
    roots = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                roots[alias.asname or whole] = whole
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                roots[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in roots:
            yield ".".join([roots[node.id], *parts[::-1]])


def names_of(path):
    tree = (code_of(path) if path.suffix == ".ipynb"
            else ast.parse(path.read_text(encoding="utf-8")))
    return {n for n in dotted(tree) if n.split(".")[0] in LIBRARIES}


@each_source
def test_names_of_jax_are_public_and_present(path):
    """popjaxrl#1; jax-ml/jax#16902; feax#3; waymax#77: what other repositories
    died of. Each name is looked up in the versions at hand, and a deprecation
    is an error."""
    for name in names_of(path):
        assert not any(f"{name}.".startswith(f"{f}.") for f in FORBIDDEN), name
        assert not any(part.startswith("_") and not part.startswith("__")
                       for part in name.split(".")), name
        found, parts = LIBRARIES[name.split(".")[0]], name.split(".")[1:]
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            for part in parts:
                if not isinstance(found, types.ModuleType):
                    break                   # attributes of a value, not of a library
                if not hasattr(found, part):
                    importlib.import_module(f"{found.__name__}.{part}")
                found = getattr(found, part)


@each_source
def test_mappings_of_flax_are_plain(path):
    """google/flax#2822, #2872: the frozen mappings ended with Flax 0.7."""
    text = ("\n".join(s for s, _ in cells(path, "code")) if path.suffix == ".ipynb"
            else path.read_text(encoding="utf-8"))
    words = ("Frozen" "Dict", ".un" "freeze(", "frozen" "_dict")
    assert [word for word in words if word in text] == []


@pytest.mark.parametrize("after", ["same", "other"])
def test_the_colab_cell_notices_another_jax(after, monkeypatch):
    """google/flax#2861, #2950; scico#394; JaxMARL#161: an install that changes
    JAX under a running kernel. (Each notebook begins with this cell.)"""
    installed = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: (
        jax.__version__ if after == "same" else "0.0.1"))
    lines = COLAB_CELL.format(git_url="https://example.org/x").splitlines()
    program = "\n".join(
        line.replace("%pip install", "installed.append('") + "')"
        if "%pip" in line else line for line in lines)
    run = lambda: exec(program, {"installed": installed})
    if after == "same":
        run()
    else:
        with pytest.raises(AssertionError, match="restart the runtime"):
            run()
    assert len(installed) == 1 and "git+https://example.org/x" in installed[0]
