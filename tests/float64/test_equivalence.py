"""S5 against a bank, and HiPPO-N against LegS, in double precision."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

from annotated_ssm import bank, equivalence, s5
from annotated_ssm.nplr import dplr, nplr

EPS = np.finfo(float).eps
H, P, L = 3, 6, 20
rng = np.random.default_rng(10)
Λ = -rng.uniform(0.2, 1, P) + 1j * rng.uniform(0, 6, P)
B, C = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((P, H), (H, P)))
D, dt = rng.normal(size=H), rng.uniform(0.02, 0.3, P)
u, x0 = rng.normal(size=(L, H)), rng.normal(size=(2, H, P)) + 0j
WAYS = {
    "regular": dict(method="zoh"),
    "gaps": dict(method="bilinear", steps=rng.uniform(0, 2, L)),
    "all": dict(method="bilinear", bidirectional=True, steps=rng.uniform(0, 2, L),
                mask=np.arange(L) < 13, rate=0.5),
}


def close(a, b, roundings=100 * L):
    np.testing.assert_allclose(a, b, rtol=0, atol=roundings * EPS * np.abs(b).max())


@pytest.mark.parametrize("way", WAYS)
def test_the_state_of_s5_is_the_sum_of_the_banks(way):
    both = way == "all"
    kwargs, start = WAYS[way], x0 if both else x0[0]
    wide = np.concatenate([C, -C], 1) if both else C
    own = equivalence.bank_of(Λ, B, dt)
    y, x = s5.apply_ssm(Λ, B, wide, D, dt, u, x0=start.sum(-2), **kwargs)
    _, parts = bank.apply_ssm(*own, wide, D, 1.0, u, x0=start, **kwargs)
    close(parts.sum(-2), x)
    # Each feature must enter with its sign.
    turned = np.asarray(parts) * np.array([1, 1, -1])[:, None]
    assert np.abs(turned.sum(-2) - x).max() > 1e-2
    if not both:
        C_equiv = equivalence.stacked_output_matrix(C, H)
        read = 2 * (C_equiv @ np.asarray(parts).ravel()).real + D * u[-1]
        close(read, y[-1])
        mirrored = 2 * (C_equiv.conj() @ np.asarray(parts).ravel()).real + D * u[-1]
        assert np.abs(mirrored - y[-1]).max() > 1e-2


def test_a_scalar_time_scale_is_one_for_all():
    for given in (0.1, np.float64(0.1)):
        one, many = (equivalence.bank_of(Λ, B, d) for d in (given, np.full(P, 0.1)))
        for a, b in zip(one, many):
            close(a, b, 1)


@pytest.mark.parametrize("tied", [True, False])
def test_a_bank_is_one_system(tied):
    Λ_h = Λ if tied else Λ * rng.uniform(0.5, 2, (H, 1))
    B_h = B[:, 0] if tied else B.T
    step = 0.1 if tied else np.array([0.01, 0.1, 0.3])
    y, x = bank.apply_ssm_naive(Λ_h, B_h, C, D, step, u)
    system = equivalence.system_of(Λ_h, B_h, C, step)
    Λ1, B1, C1, dt1 = system
    y1, x1 = s5.apply_ssm(Λ1, B1, C1, D, dt1, u)
    close(y1, y)
    close(np.reshape(x1, (H, P)), x)
    assert np.count_nonzero(B1) == np.count_nonzero(C1) == H * P


def test_blocks_are_independent_systems():
    whole, x = s5.apply_ssm_naive(Λ, B, C, D, dt, u)
    for blocks in (1, 2, 3, 6):
        parts = equivalence.subsystems(Λ, B, C, dt, blocks)
        runs = [s5.apply_ssm_naive(λ, b, c, 0 * D, d, u) for λ, b, c, d in parts]
        close(sum(y for y, _ in runs) + D * u, whole)
        close(np.concatenate([x for _, x in runs]), x)


@pytest.mark.parametrize("N", [1, 2, 7, 40])
def test_responses_are_those_of_the_matrices(N):
    A_N, P_row, b = nplr("legs", N)
    A, I = A_N - P_row.T @ P_row, np.eye(N)
    s = np.array([[0.3 + 2j, 1j, 5.5 + 0j], [-0.3 + 40j, 0.5 - 3j, 30j]])
    legs, normal = equivalence.legs_response(N, s), equivalence.normal_response(N, N, s)
    missed = equivalence.reflection(N, s)
    assert legs.shape == normal.shape == (2, 3, N) and missed.shape == (2, 3)
    for at in np.ndindex(s.shape):
        close(legs[at], np.linalg.solve(s[at] * I - A, b), N**2)
        close(normal[at], np.linalg.solve(s[at] * I - A_N, b / 2), N**2 * 10)
        assert abs(missed[at] - (1 - b @ legs[at])) < 50 * N**2 * EPS


def test_the_reflection_on_two_lines():
    ω = np.geomspace(0.1, 1e4, 50)
    for N in (1, 6, 101):
        np.testing.assert_allclose(np.abs(equivalence.reflection(N, 1j * ω)),
                                   ω / np.hypot(ω, N), rtol=10 * N * EPS)
        np.testing.assert_allclose(np.abs(equivalence.reflection(N, 1j * ω - 0.5)), 1,
                                   rtol=10 * N * EPS)
    eigenvalues = dplr("legs", 32)[0]
    assert np.abs(equivalence.reflection(32, eigenvalues) + 1).max() < 1e-10


def test_modes_are_the_kernels():
    t = np.array([0.0, 0.3, 1.7])
    for N in (2, 6, 20):
        A_N, P_row, b = nplr("legs", N)
        n = min(N, 5)
        for (μ, W), matrix, vector in (
                (equivalence.legs_modes(n), A_N - P_row.T @ P_row, b),
                (equivalence.normal_modes(N, n), A_N, b / 2)):
            kernels = (W @ np.exp(np.outer(μ, t))).real
            for k, at in enumerate(t):
                np.testing.assert_allclose(kernels[:, k], (expm(at * matrix) @ vector)[:n],
                                           rtol=0, atol=1e-11)


def test_energy_is_an_integral():
    μ, W = equivalence.normal_modes(4, 2)
    square = lambda t: np.sum((W @ np.exp(μ * t)).real**2)
    assert abs(equivalence.energy(μ, W, 0.2, 1.5) - quad(square, 0.2, 1.5)[0]) < 1e-10


def test_convergence_is_weak():
    """Published numbers: responses fall like ω/N, kernels don't move."""
    for ω, want in ((1, (0.062, 0.016, 0.0039, 0.00098)),
                    (5, (0.42, 0.081, 0.019, 0.0049))):
        legs = equivalence.legs_response(4, 1j * ω)
        for N, distance in zip((16, 64, 256, 1024), want):
            normal = equivalence.normal_response(N, 4, 1j * ω)
            found = np.linalg.norm(normal - legs) / np.linalg.norm(legs)
            assert float(f"{found:.2g}") == distance
    μ, W = equivalence.legs_modes(4)
    for N in (16, 64, 128):
        ν, Z = equivalence.normal_modes(N, 4)
        apart = equivalence.energy(np.concatenate([ν, μ]),
                                   np.concatenate([Z, -W], 1), 0.05, 3)
        assert 1.56 < np.sqrt(apart / equivalence.energy(μ, W, 0.05, 3)) < 1.58
