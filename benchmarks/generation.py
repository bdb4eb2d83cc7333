"""Whole models that write one token after the other, at a given context.

    python -m benchmarks.generation [--quick]

Writes results/benchmarks/generation.json: language models of four blocks in
which only the layer differs, S4, S5 or attention with a cache of keys and
values, after 1k, 4k and 16k tokens, for one stream and for eight.
"""

import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from annotated_ssm.attention import Attention, LinearAttention
from annotated_ssm.heads import LanguageModel
from annotated_ssm.layers import S4, S5
from benchmarks.measure import compare, provenance, record

VOCABULARY = 256


def models(context, H, depth):
    """Name -> language model; attention has room for the context."""
    layers = {"attention": partial(Attention, capacity=context),
              "linear attention": LinearAttention,
              "S4": partial(S4, N=64), "S5": partial(S5, P=H)}
    built = {name: LanguageModel(VOCABULARY, H, depth, layer, glu="full",
                                 dropout=0.0, rngs=nnx.Rngs(0))
             for name, layer in layers.items()}
    for model in built.values():
        model.eval()
    return built


def after(model, context, batch):
    """The model's state after so many tokens; what they were is left at zero.

    The layers of attention are told how full their caches are: nothing else in
    a state says what it costs."""
    def full(layer, state):
        if not isinstance(layer, Attention):
            return state
        keys, values, count, clock = state
        return keys, values, count + context, clock + context

    states = model.init_state(batch)
    layers = [block.layer for block in model.backbone.blocks]
    return type(states)(full(*pair) for pair in zip(layers, states, strict=True))


def writer(model, steps):
    """(parameters, state, token) to as many tokens as there are steps.

    Each is the likeliest one after the token before it."""
    graph, params = nnx.split(model)

    def write(params, state, token):
        model = nnx.merge(graph, params)

        def one(carry, _):
            scores, state = model.step(*carry)
            token = jnp.argmax(scores, -1).astype(jnp.int32)
            return (token, state), token

        return jax.lax.scan(one, (token, state), length=steps)[1]

    return write, params


def tokens(context, batch, H=256, depth=4, steps=64, rounds=9):
    """Milliseconds for the last `steps` tokens of a context."""
    functions, arguments, sizes = {}, {}, {}
    for name, model in models(context, H, depth).items():
        functions[name], params = writer(model, steps)
        arguments[name] = (params, after(model, context - steps, batch),
                           jnp.zeros(batch, jnp.int32))
        sizes[name] = sum(leaf.size for leaf in jax.tree.leaves(
            nnx.state(model, nnx.Param)))
    table = compare(functions, arguments, "attention", rounds, budget=120)
    for name, row in table.items():
        row["parameters"] = sizes[name]
        row["tokens_per_second"] = round(1e3 * batch * steps / row["ms"], 1)
    return {"context": context, "batch": batch, "H": H, "depth": depth,
            "steps": steps, "models": table}


def main(quick=False):
    start = time.perf_counter()
    result = provenance(quick=quick, dtype="float32", vocabulary=VOCABULARY)
    small = dict(H=16, depth=1, steps=8, rounds=1) if quick else {}
    result["tokens"] = [tokens(context, batch, **small)
                        for context in ((32,) if quick else (1024, 4096, 16384))
                        for batch in ((1,) if quick else (1, 8))]
    result["wall_s"] = round(time.perf_counter() - start, 1)
    print(result if quick else record("generation", result))


if __name__ == "__main__":
    main("--quick" in sys.argv)
