"""Experiments of the papers' size: their numbers, and that each could be trained."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from test_experiments import FORMS

from annotated_ssm import assembly, catalogue, compiled, training

PAPERS = [name for name, e in catalogue.EXPERIMENTS.items() if "the paper's" in (
    e.description)]
# Gu et al., 2022, Table 5. Every row but that of words turned into spectra.
S4 = """
listops-s4     6  128  BN False 0    0.01   100 50  0.01 5
text-s4        4  64   BN True  0    0.001  50  20  0    5
retrieval-s4   6  256  BN True  0    0.002  64  20  0    20
image-s4       6  512  LN False 0.2  0.004  50  200 0.01 20
pathfinder-s4  6  256  BN True  0.1  0.004  100 200 0    10
pathx-s4       6  256  BN True  0.0  0.0005 32  100 0    20
scifar-s4      6  1024 LN False 0.25 0.01   50  200 0.01 20
speech-10-s4   6  128  BN True  0.1  0.01   20  150 0    10
"""
# The scripts of Smith et al., 2023: layers, d_model, ssm_size, blocks, p_dropout,
# lr_factor, ssm_lr, batch, epochs, decay, epochs of warm-up, gate.
S5 = """
listops-s5        8 128 16  8  0    3   0.001  50 40  0.04 1 half_glu2
text-s5           6 256 192 12 0.1  4   0.001  50 35  0.07 0 half_glu2
retrieval-s5      6 128 256 16 0.0  2   0.001  32 20  0.05 1 half_glu1
image-s5          6 512 384 3  0.1  4.5 0.001  50 250 0.07 1 half_glu1
pathfinder-s5     6 192 256 8  0.05 5   0.0009 64 200 0.03 1 half_glu1
pathx-s5          6 128 256 16 0.0  3   0.0006 32 75  0.06 1 half_glu1
speech-35-s5      6 96  128 16 0.1  4   0.002  16 40  0.04 1 half_glu1
pendulum-s5-paper 4 30  16  8  0    4   0.003  32 100 0    1 half_glu2
"""
GATES = {"half_glu1": "half", "half_glu2": "half2"}


def rows(table):
    return [pytest.param(*line.split(), id=line.split()[0])
            for line in table.strip().splitlines()]


@pytest.mark.parametrize(
    "name, depth, H, norm, before, drop, rate, batch, epochs, decay, patience", rows(S4))
def test_rows_of_s4(name, depth, H, norm, before, drop, rate, batch, epochs, decay,
                    patience):
    e = catalogue.get(name)
    t = e.training
    assert (e.layer, e.depth, e.H, e.N) == ("S4", int(depth), int(H), 64)
    assert (e.norm, e.prenorm) == ({"BN": "batch", "LN": "layer"}[norm], before == "True")
    assert (e.dropout, t.learning_rate, t.weight_decay) == (
        float(drop), float(rate), float(decay))
    assert (t.batch_size, t.epochs) == (int(batch), int(epochs))
    # Theirs says when the rate is lowered, and is no reason to stop.
    assert int(patience) > 0 and t.patience == 0
    assert t.ssm_learning_rate == min(float(rate), 0.001)


@pytest.mark.parametrize(
    "name, depth, H, P, J, drop, factor, ssm, batch, epochs, decay, warmup, gate",
    rows(S5))
def test_rows_of_s5(name, depth, H, P, J, drop, factor, ssm, batch, epochs, decay, warmup,
                    gate):
    e = catalogue.get(name)
    t = e.training
    assert (e.layer, e.depth, e.H, e.P, e.blocks) == (
        "S5", int(depth), int(H), int(P), int(J))
    assert (e.dropout, t.weight_decay, e.glu) == (float(drop), float(decay), GATES[gate])
    assert (t.batch_size, t.epochs) == (int(batch), int(epochs))
    assert t.ssm_learning_rate == float(ssm)
    assert t.learning_rate == pytest.approx(float(factor) * float(ssm), rel=1e-12)
    assert t.warmup * t.epochs == pytest.approx(float(warmup), rel=1e-12)
    assert (e.dt_min, e.dt_max) == ({"pathx-s5": 1e-4, "pendulum-s5-paper": 1e-2}.get(
        name, 1e-3), 0.1)
    film = name == "pendulum-s5-paper"
    assert (e.bidirectional, e.norm, e.prenorm) == (
        not film, "layer" if film else "batch", not film)


def test_every_row_of_the_papers_is_looked_at():
    looked = {row.id for table in (S4, S5) for row in rows(table)}
    # Those of which no second source was found, as the page says.
    assert set(PAPERS) - looked == {
        "smnist-s5", "psmnist-s5", "scifar-s5", "wikitext-s4"}


@pytest.mark.parametrize("name", PAPERS)
def test_a_step_of_training_at_full_size(name):
    """Built, differentiated and stepped at full size and length; all in the mind of
    the tracer, so that no number is computed."""
    e = catalogue.get(name)
    form, B = FORMS[e.task], e.training.batch_size
    if e.options.get("grey"):
        form = dataclasses.replace(form, features=1)
    form = dataclasses.replace(form, classes=e.options.get("words", form.classes))

    def step(batch):
        graphdef, state = compiled.start(assembly.build(e, form), e.training, 10)
        before = state.params
        state, loss = compiled.train_step(graphdef, e.training, 10, form.kind, state,
                                          batch)
        return before, state.params, loss

    lead = (B, *(2,) * form.pairs, form.length)
    u = jax.ShapeDtypeStruct(lead, jnp.int32) if form.tokens else \
        jax.ShapeDtypeStruct((*lead, form.features), jnp.float32)
    answers = (B, *(form.length,) * form.each)
    y = jax.ShapeDtypeStruct((*answers, form.classes), jnp.float32) \
        if form.kind == "regression" else jax.ShapeDtypeStruct(answers, jnp.int32)
    mask = jax.ShapeDtypeStruct(lead, bool) if form.tokens and not form.each else None
    before, after, loss = nnx.eval_shape(step, compiled.Batch(u, y, mask))
    assert loss.shape == () and loss.dtype == jnp.float32
    shapes = [[leaf.shape for leaf in jax.tree.leaves(tree)] for tree in (before, after)]
    assert shapes[0] == shapes[1]
    depth = [path for path, _ in nnx.to_flat_state(before) if path[:2] == (
        "backbone", "blocks")]
    assert len({path[2] for path in depth}) == e.depth
