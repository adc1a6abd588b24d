"""Which kinds of operators a user can ask for."""

import importlib
import pkgutil

import penstock.model
from penstock.model.job_graph import OperatorSpec


def spec_classes() -> list[type[OperatorSpec]]:
    """Return every class of specs that the model defines; those that others only build on are none."""
    for module in pkgutil.iter_modules(penstock.model.__path__):
        importlib.import_module(f"penstock.model.{module.name}")
    leaves, pending = [], [OperatorSpec]
    while pending:
        spec = pending.pop()
        pending += spec.__subclasses__()
        if not spec.__subclasses__() and spec.__module__.startswith("penstock.model."):
            leaves.append(spec)
    return sorted(leaves, key=lambda spec: spec.__name__)
