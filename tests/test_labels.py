"""Every layer in every model: each trained array has a group, and each group arrays."""

from functools import partial

import jax
import pytest
from flax import nnx

from annotated_ssm import assembly, configurations, encoders, heads, models, optimizer
from annotated_ssm import pooling, training
from annotated_ssm.configurations import Experiment

# Which parameters are dynamics: those that have their own rate and no decay.
_S5 = {"Lambda_log_decay", "Lambda_im", "B", "log_dt"}
DYNAMICS = {"S5": _S5, "S4": _S5 | {"P"}, "S4D": _S5, "DSS": _S5 - {"B"},
            "LSSL": {"A", "B", "log_dt"}, "GRU": set(), "LSTM": set(),
            "Attention": set(), "identity": set()}
SIZES = {"H": 4, "P": 4, "blocks": 1, "N": 4, "heads": 2, "bidirectional": False}
LAYERS = {layer: (Experiment("", "digits", layer=layer, **SIZES), dynamics)
          for layer, dynamics in DYNAMICS.items()} | {
    "S5, one time scale": (
        Experiment("", "digits", timescale="scalar", **SIZES), _S5),
    "S5, discrete": (Experiment("", "digits", timescale="none", **SIZES),
                     {"Lambda_bar", "B"})}
MODELS = {
    "classifier": partial(models.SequenceClassifier, 1, 3, 4, 2),
    "classifier of tokens": partial(models.SequenceClassifier, 5, 3, 4, 2,
                                    encoder=encoders.TokenEncoder),
    "pools": lambda layer, **k: pooling.PooledClassifier(
        1, 3, [4, 4], [layer, layer], (2, 2), **k),
    "regressor": partial(heads.SequenceRegressor, 2, 2, 4, 2),
    "films, mlp": partial(heads.SequenceRegressor, 576, 2, 4, 2, encoder=partial(
        encoders.FrameEncoder, kind="mlp")),
    "films, conv": partial(heads.SequenceRegressor, 576, 2, 4, 2, encoder=partial(
        encoders.FrameEncoder, kind="conv")),
    "language, tied": partial(heads.LanguageModel, 5, 4, 2),
    "language": partial(heads.LanguageModel, 5, 4, 2, tied=False),
    "retrieval": partial(heads.Retrieval, 5, 2, 4, 2),
}


def test_these_are_all_layers():
    assert set(DYNAMICS) == set(configurations.LAYERS)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_leaf_has_a_label_and_every_label_a_leaf(layer, model):
    experiment, dynamics = LAYERS[layer]
    made = MODELS[model](layer=assembly.layer_maker(experiment, 16),
                         rngs=training.streams(0))
    params = nnx.state(made, nnx.Param)
    leaves = dict(nnx.to_flat_state(params))
    labels = dict(nnx.to_flat_state(optimizer.parameter_labels(params)))
    assert labels.keys() == leaves.keys()
    for path, leaf in leaves.items():
        own = "ssm" if "layer" in path and path[-1] in dynamics else (
            "regular" if leaf[...].ndim > 1 else "scale")
        assert labels[path] == own, path
    assert {path[-1] for path, label in labels.items() if label == "ssm"} == dynamics
    # Two moments for each array, whichever its group; not one is left out.
    rule = optimizer.make_optimizer(params, training.TrainingConfig(), 10)
    moments = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(rule.init, params))]
    assert sorted(s for s in moments if s) == sorted(
        2 * [leaf[...].shape for leaf in leaves.values()])
