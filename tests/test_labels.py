"""Every layer in every model: each trained array has a group, and each group arrays."""

from functools import partial

import jax
import numpy as np
import pytest
from flax import nnx

from annotated_ssm import assembly, configurations, encoders, heads, models, optimizer
from annotated_ssm import pooling, training
from annotated_ssm.configurations import Experiment

# Which parameters are dynamics: those that have their own rate and no decay.
DYNAMICS = {
    "S5": {"Lambda_log_decay", "Lambda_im", "B", "log_dt"},
    "S4": set(), "S4D": set(), "DSS": set(), "LSSL": set(),
    "GRU": set(), "LSTM": set(), "Attention": set(), "identity": set(),
}
SIZES = {"H": 4, "P": 4, "blocks": 1, "N": 4, "heads": 2, "bidirectional": False}
LAYERS = {layer: Experiment("", "digits", layer=layer, **SIZES) for layer in DYNAMICS} | {
    scale: Experiment("", "digits", timescale=scale, **SIZES)
    for scale in ("scalar", "none")}
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
    made = MODELS[model](layer=assembly.layer_maker(LAYERS[layer], 16),
                         rngs=training.streams(0))
    params = nnx.state(made, nnx.Param)
    leaves = dict(nnx.to_flat_state(params))
    labels = dict(nnx.to_flat_state(optimizer.parameter_labels(params)))
    assert labels.keys() == leaves.keys() and set(labels.values()) <= set(
        optimizer.GROUPS)
    inside = {path[-1] for path, label in labels.items() if label == "ssm"}
    print(layer, inside)
    for path, label in labels.items():
        dynamics = path[-1] in DYNAMICS.get(layer, inside) and "layer" in path
        assert label == ("ssm" if dynamics else
                         "regular" if leaves[path][...].ndim > 1 else "scale"), path
    # Two moments for each array, whichever its group; not one is left out.
    rule = optimizer.make_optimizer(params, training.TrainingConfig(), 10)
    moments = jax.eval_shape(rule.init, params)
    arrays = [leaf.shape for leaf in jax.tree.leaves(moments) if leaf.shape != ()]
    scalars = [leaf[...].shape for leaf in leaves.values() if leaf[...].shape != ()]
    assert sorted(arrays) == sorted(2 * scalars)
    assert np.prod([len(s) for s in scalars]) > 0
