"""What a traced program is made of, through all its inner programs."""

import jax


def equations(jaxpr):
    """Every equation of a jaxpr, at every depth."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(
                list(equation.params.values()),
                is_leaf=lambda v: hasattr(v, "jaxpr") or hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def arrays(function, *arguments):
    """Shape and dtype of every array that a function makes on its way."""
    for equation in equations(jax.make_jaxpr(function)(*arguments).jaxpr):
        for variable in equation.outvars:
            yield variable.aval.shape, variable.aval.dtype
