"""How an actor has ended, in words, from what Ray says of its call."""

import re

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    RuntimeEnvSetupError,
)

_CAUSES = re.compile(r"\s*Some common causes include:.*", re.DOTALL)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NODE_LOST = "its node is lost"
"""How the ending begins of an actor that was on a lost node, or was to begin there."""

_KEYS = ("class_name:", "actor_id:", "pid:", "name:", "namespace:", "ip:")


def ending_of(call: "ray.ObjectRef[None]") -> str:
    """Return how the actor has ended whose call is over."""
    try:
        ray.get(call)
    except RayError as error:
        return ending_in_words(error)
    return "it ended as it was told to"


def ending_in_words(error: RayError) -> str:
    """Return in one sentence what an error of an actor's call says of its end."""
    match error:
        case OutOfMemoryError():
            return f"Ray killed it, as memory is short on its node: {_first_line(str(error))}"
        case NodeDiedError():
            return NODE_LOST
        case RuntimeEnvSetupError():
            return f"Ray could not prepare its process: {_first_line(str(error))}"
        case RayTaskError():
            return f"it failed: {_last_line(str(error))}"
        case ActorDiedError() | ActorUnavailableError():
            return _death(str(error))
    return _first_line(str(error))


def _death(text: str) -> str:
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines()]
    told = [line for line in lines[1:] if line and not line.startswith(_KEYS)]
    if "creation task" in lines[0]:
        return f"it could not begin: {told[-1] if told else lines[0]}"
    reason = " ".join(told)
    if "ray.kill" in reason:
        return "it was ended by ray.kill"
    if "node" in reason and ("died" in reason or "dead" in reason) and "worker process has died" not in reason:
        return f"{NODE_LOST}: {_first_line(reason)}"
    if "connection error code 2" in reason:
        return "its process has died; it was killed, for want of memory perhaps, or has crashed"
    return _CAUSES.sub("", reason) or lines[0]


def _first_line(text: str) -> str:
    return next((line.strip() for line in _COLOURS.sub("", text).splitlines() if line.strip()), "no reason was given")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")
