"""Peers' parameters in our layers, against the peers' algorithms and outputs."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import converters, nplr, s4
from annotated_ssm.cauchy import dplr_kernel
from benchmarks.peers import direct_kernel, s4_layer, s4d_layer, s5_layer

REFERENCE = np.load(Path(__file__).parents[1] / "reference.npz")


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def run(layer, u):
    y = layer(u[None])[0][0]
    assert y.dtype == jnp.float64
    return np.array(y)


def kernels(layer, L):
    """Impulse responses without D, (H, L)."""
    u = np.zeros((L, layer.H))
    u[0] = 1
    y = run(layer, u)
    y[0] -= layer.D[...]
    return y.T


def close(a, b, digits=1e-10):
    np.testing.assert_allclose(a, b, rtol=0, atol=digits * np.abs(b).max())


def stepped(layer, u):
    """Outputs of one step after the other, (L, H)."""
    state, ys = layer.init_state(1), []
    step = nnx.jit(lambda layer, u_k, x: layer.step(u_k, x))
    for u_k in u:
        y, state = step(layer, u_k[None], state)
        ys.append(y[0])
    return np.stack(ys)


# S5


def s5_params(name):
    r = {k: REFERENCE[f"{name}_{k}"] for k in ("Lambda", "B", "C", "D", "log_step")}
    return {"Lambda_re": r["Lambda"].real, "Lambda_im": r["Lambda"].imag,
            "B": pairs(r["B"]), "C": pairs(r["C"]), "D": r["D"],
            "log_step": r["log_step"][:, None]}


def test_s5_gives_the_outputs_of_its_code():
    layer = converters.from_s5(s5_params("s5_zoh_conj"))
    u = REFERENCE["s5_zoh_conj_u"]
    close(run(layer, u), REFERENCE["s5_zoh_conj_y"])
    close(stepped(layer, u[:20]), REFERENCE["s5_zoh_conj_y"][:20])


@pytest.mark.parametrize("form", ["one C", "two Cs", "PyTorch"])
def test_s5_of_all_states_in_both_directions(form):
    name = "s5_bilinear_full_bi"
    p, P = s5_params(name), 10
    if form == "PyTorch":
        layer = converters.from_s5_pytorch(
            {"Lambda": REFERENCE[f"{name}_Lambda"], "B": p["B"], "D": p["D"],
             "C": REFERENCE[f"{name}_C"], "log_step": p["log_step"][:, 0]},
            method="bilinear")
    else:
        if form == "two Cs":
            C = p.pop("C")
            p |= {"C1": C[:, :P], "C2": C[:, P:]}
        layer = converters.from_s5(p, method="bilinear", conj_sym=False)
    assert layer.bidirectional and layer.P == 2 * P
    close(run(layer, REFERENCE[f"{name}_u"]), REFERENCE[f"{name}_y"])


def test_s5_with_clipped_eigenvalues():
    rng, H, P = np.random.default_rng(0), 3, 6
    # One that grew, one in the clip; slow enough for the textbook's ZOH.
    p = {"Lambda_re": np.array([0.2, -5e-5, -0.5, -1.0, -2.0, -0.1]),
         "Lambda_im": rng.normal(0, 5, P), "B": rng.normal(size=(P, H, 2)),
         "C": rng.normal(size=(H, P, 2)), "D": rng.normal(size=H),
         "log_dt": np.log(rng.uniform(1e-2, 1e-1, P))}
    u = rng.normal(size=(50, H))
    expected = s5_layer(p, u)
    params = {**p, "log_step": p["log_dt"][:, None]}
    del params["log_dt"]
    close(run(converters.from_s5(params, clip_eigs=True), u), expected)


# Diagonal banks


def test_s4d_of_annotated_s4_is_the_sum_over_all_states():
    rng, H, N, L = np.random.default_rng(1), 3, 8, 40
    p = {"A_re": rng.normal(-0.5, 0.3, (N, H)), "A_im": rng.normal(0, 10, (N, H)),
         "C": rng.normal(size=(N, H, 2)), "D": rng.normal(size=(1, H)),
         "log_step": np.log(rng.uniform(1e-3, 1e-1, (1, H))),
         "B_re": rng.normal(size=(N, H)), "B_im": rng.normal(size=(N, H))}
    layer = converters.from_annotated_s4d(p)
    Λ = (np.minimum(p["A_re"], -1e-4) + 1j * p["A_im"]).T
    C = (p["C"][..., 0] + 1j * p["C"][..., 1]).T
    for h in range(H):
        expected = direct_kernel(Λ[h], np.ones(N), C[h] / 2,
                                 np.exp(p["log_step"][0, h]), L)
        close(kernels(layer, L)[h], expected)
    np.testing.assert_array_equal(layer.D[...], p["D"][0])
    u = rng.normal(size=(L, H))
    close(stepped(layer, u), run(layer, u))


def small_s4d(rng, H=3, M=4):
    return {"D": rng.normal(size=H), "kernel.C": rng.normal(size=(H, M, 2)),
            "kernel.log_dt": np.log(rng.uniform(1e-3, 1e-1, H)),
            "kernel.log_A_real": rng.normal(-1, 0.5, (H, M)),
            "kernel.A_imag": rng.normal(0, 10, (H, M))}


def test_small_s4d_of_state_spaces_and_discretax():
    rng = np.random.default_rng(2)
    p, u = small_s4d(rng), rng.normal(size=(60, 3))
    ones = np.stack([np.ones((3, 4)), np.zeros((3, 4))], -1)
    peer = {"Λ_re": -np.exp(p["kernel.log_A_real"]), "Λ_im": p["kernel.A_imag"],
            "B": ones, "C": p["kernel.C"], "D": p["D"], "log_dt": p["kernel.log_dt"]}
    layer = converters.from_state_spaces_s4d(p)
    expected = np.asarray(s4d_layer(peer, u))
    close(run(layer, u), expected)
    np.testing.assert_array_equal(layer.Lambda_log_decay[...], p["kernel.log_A_real"])
    twin = converters.from_discretax_s4d(
        {"C": p["kernel.C"] @ [1, 1j], "log_a_real": p["kernel.log_A_real"],
         "A_imag": p["kernel.A_imag"], "log_dt": p["kernel.log_dt"]})
    close(run(twin, u), expected - p["D"] * u)


def complete(name, C, transform=lambda dt: np.log(dt)):
    """A reference case of state-spaces under the names of its checkpoint."""
    r = {k: REFERENCE[f"{name}_{k}"] for k in ("Lambda", "B", "dt")}
    return {"D": np.zeros((1, 2)), "kernel.C": pairs(REFERENCE[f"{name}_{C}"]),
            "kernel.B": pairs(r["B"]), "kernel.A_real": np.log(-r["Lambda"].real),
            "kernel.A_imag": -r["Lambda"].imag, "kernel.inv_dt": transform(r["dt"])}


@pytest.mark.parametrize("name, method", [("s4d_diag-lin_zoh", "zoh"),
                                          ("s4d_diag-inv_bilinear", "bilinear")])
@pytest.mark.parametrize("transform", ["exp", "softplus"])
def test_complete_s4d_of_state_spaces_gives_its_kernel(name, method, transform):
    inverse = {"exp": np.log, "softplus": lambda dt: np.log(np.expm1(dt))}[transform]
    layer = converters.from_state_spaces_s4d(
        complete(name, "C", inverse), method=method, dt_transform=transform)
    close(kernels(layer, 64), REFERENCE[f"{name}_K"][0])
    assert (np.asarray(layer.Lambda_im[...]) >= 0).all()


# S4


def s4_case(rng, H=3, N=8):
    """annotated-s4's parameters after some training: no conjugate pairs."""
    Λ, P, B, _ = nplr.dplr("legs", N, conj_sym=False)
    noise = lambda: rng.normal(0, 0.1, (N, H)) + 1j * rng.normal(0, 0.1, (N, H))
    Λ, P, B = (a[:, None] + noise() for a in (Λ, P[0], B))
    Λ.real[2, -1] = 0.3                                        # they clip it
    return {"Lambda_re": Λ.real, "Lambda_im": Λ.imag, "P": P, "B": B,
            "C": rng.normal(size=(N, H, 2)), "D": rng.normal(size=(1, H)),
            "log_step": np.log(rng.uniform(1e-2, 1e-1, (1, H)))}


@pytest.mark.parametrize("L, true_C", [(1, True), (31, True), (64, True), (64, False)])
def test_s4_of_annotated_s4_is_its_layer(L, true_C):
    rng = np.random.default_rng(L)
    p, u = s4_case(rng), rng.normal(size=(L, 3))
    # Their arrays as the rewritten layer takes them: features first, and C̃,
    # the conjugate of what is stored.
    peer = {"Λ_re": p["Lambda_re"].T, "Λ_im": p["Lambda_im"].T,
            "P": pairs(p["P"].T), "B": pairs(p["B"].T),
            "C": p["C"].swapaxes(0, 1) * [1, -1], "D": p["D"][0],
            "log_dt": p["log_step"][0]}
    layer, condition = converters.from_annotated_s4(p, L, true_C=true_C)
    assert condition.shape == (3,) and (condition >= 1).all()
    assert layer.C_tilde == (None if true_C else L)
    close(run(layer, u), np.asarray(s4_layer(peer, u)), 1e-10)


def test_s4_of_annotated_s4_gives_its_kernel_and_its_C():
    r = {k: REFERENCE[f"as4_16_100_{k}"] for k in
         ("Lambda", "P", "B", "Ctilde_conj", "step", "K", "Ab", "Bb", "Cb")}
    p = {"Lambda_re": r["Lambda"].real[:, None], "Lambda_im": r["Lambda"].imag[:, None],
         "P": r["P"][:, None], "B": r["B"][:, None],
         "C": pairs(r["Ctilde_conj"])[:, None], "D": np.zeros((1, 1)),
         "log_step": np.log(r["step"]).reshape(1, 1)}
    layer, condition = converters.from_annotated_s4(p, 100)
    close(kernels(layer, 100)[0], r["K"])
    C = np.asarray(layer.C[...]) @ [1, 1j]
    close(C[0], r["Cb"][0] / 2)
    # Past its length the kernel goes on as the recurrence does.
    late = r["Cb"] @ np.linalg.matrix_power(r["Ab"], 150) @ r["Bb"]
    np.testing.assert_allclose(kernels(layer, 151)[0, -1], late[0, 0].real,
                               atol=1e-10 * np.abs(r["K"]).max())
    u = np.random.default_rng(0).normal(size=(30, 1))
    close(stepped(layer, u), run(layer, u))
    # Of the packed system of twice the size.
    power = np.eye(16) - np.linalg.matrix_power(r["Ab"], 100)
    np.testing.assert_allclose(condition, np.linalg.cond(power), rtol=1e-6)


@pytest.mark.parametrize("l_kernel, C", [(64, "Ctilde"), (0, "C")])
def test_s4_of_state_spaces_gives_its_kernel(l_kernel, C):
    p = complete("s4_legs", C)
    p |= {"kernel.P": pairs(REFERENCE["s4_legs_P"]), "kernel.l_kernel": np.int64(l_kernel)}
    layer, condition = converters.from_state_spaces_s4(p)
    close(kernels(layer, 64), REFERENCE["s4_legs_K"][0])
    close(np.asarray(layer.C[...]) @ [1, -1j], REFERENCE["s4_legs_C"][0], 1e-8)
    assert (condition > 1).all() if l_kernel else (condition == 1).all()
    kept, _ = converters.from_state_spaces_s4(p, true_C=False)
    assert kept.C_tilde == (l_kernel or None)
    close(kernels(kept, 64), REFERENCE["s4_legs_K"][0])


@pytest.mark.parametrize("kind, S", [("S4", 1), ("S4", 2), ("S4D", 1), ("S4D", 2)])
def test_features_that_share_a_system(kind, S):
    rng, H, M, L = np.random.default_rng(S), 6, 3, 20
    p = {"D": np.zeros((1, H)), "kernel.C": rng.normal(size=(1, H, M, 2)),
         "kernel.B": rng.normal(size=(1, S, M, 2)),
         "kernel.A_real": rng.normal(size=(S, M)),
         "kernel.A_imag": rng.uniform(0, 5, (S, M)),
         "kernel.inv_dt": np.log(rng.uniform(1e-2, 1e-1, (H, 1)))}
    P = rng.normal(size=(2, S, M, 2)) if kind == "S4" else np.zeros((2, S, M, 2))
    if kind == "S4":
        layer, _ = converters.from_state_spaces_s4(
            {**p, "kernel.P": P, "kernel.l_kernel": np.int64(0)})
    else:
        layer = converters.from_state_spaces_s4d(p, method="bilinear")
    assert layer.B[...].shape == ((M, 2) if S == 1 else (H, M, 2))
    K, one = kernels(layer, L), lambda a: a[..., 0] + 1j * a[..., 1]
    for h in range(H):
        s = h % S
        Λ = -np.exp(p["kernel.A_real"][s]) - 1j * p["kernel.A_imag"][s]
        expected = dplr_kernel(Λ, one(P[:, s]), one(p["kernel.B"][0, s]),
                               one(p["kernel.C"][0, h]),
                               np.exp(p["kernel.inv_dt"][h, 0]), L, method="naive")
        close(K[h], np.asarray(expected))


def test_a_complex_system_is_a_real_one_with_a_second_row():
    """A row of theirs alone loses the imaginary part of what it reads."""
    rng = np.random.default_rng(5)
    p = s4_case(rng, H=1)
    layer, _ = converters.from_annotated_s4(p, 32)
    Λ, P, B, C, _, dt = s4.system(layer.parameters())
    assert P.shape == (1, 2, 8)
    both = dplr_kernel(Λ[0], P[0], B[0], C[0], dt[0], 32)
    full = dplr_kernel(Λ[0], np.sqrt(2) * P[0, :1], B[0], 2 * C[0], dt[0], 32,
                       conj_sym=False, method="naive")
    close(np.asarray(both), np.asarray(full))
    alone = dplr_kernel(Λ[0], P[0, :1], B[0], C[0], dt[0], 32)
    assert np.abs(np.asarray(alone - full)).max() > 0.01 * np.abs(full).max()


def test_what_is_refused_in_float32_is_converted_in_float64():
    rng = np.random.default_rng(6)
    p = s4_case(rng)
    p |= {"Lambda_re": 0 * p["Lambda_re"], "Lambda_im": 0 * p["Lambda_im"],
          "P": 10 * p["P"], "log_step": p["log_step"] - np.log(100)}
    short = {name: a.astype(np.complex64 if np.iscomplexobj(a) else np.float32)
             for name, a in p.items()}
    with pytest.raises(ValueError, match="C in float32 gives C̃ back"):
        converters.from_annotated_s4(short, 1)
    layer, condition = converters.from_annotated_s4(p, 1)
    assert condition.max() > 1e7
    kept, _ = converters.from_annotated_s4(p, 1, true_C=False)
    close(kernels(layer, 1), kernels(kept, 1), condition.max() * np.finfo(float).eps)
