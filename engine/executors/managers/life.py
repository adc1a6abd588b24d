"""The life of a task manager as the head knows it: one table of transitions.

One that is lost, or has ended, has no state: the head forgets it, and its name is no other's.
"""

from collections.abc import Mapping
from enum import Enum

from penstock.model.errors import BugError


class ManagerState(Enum):
    """States of a task manager, each a thing that holds of it."""

    STARTED = "its process was started, it has not joined"
    OUTLIVING = "it has outlived the head before, and is not adopted"
    IDLE = "it has joined and has no instances"
    DEPLOYED = "it builds instances, or has built them and awaits the start"
    RUNNING = "its instances run"


class ManagerEvent(Enum):
    """Events in the life of a task manager."""

    JOINED = "its first message came"
    DEPLOY_ORDERED = "instances were ordered"
    START_ORDERED = "everything is built everywhere, its instances were told to run"
    TAKEN_DOWN = "it has released all of its instances"
    ADOPTED = "it was adopted, with the instances that it had"


_S, _E = ManagerState, ManagerEvent

TRANSITIONS: Mapping[ManagerState, Mapping[ManagerEvent, ManagerState]] = {
    _S.STARTED: {_E.JOINED: _S.IDLE},
    _S.OUTLIVING: {_E.ADOPTED: _S.RUNNING},
    _S.IDLE: {_E.DEPLOY_ORDERED: _S.DEPLOYED},
    # Another region may be deployed where one runs.
    _S.DEPLOYED: {_E.DEPLOY_ORDERED: _S.DEPLOYED, _E.START_ORDERED: _S.RUNNING, _E.TAKEN_DOWN: _S.IDLE},
    _S.RUNNING: {_E.DEPLOY_ORDERED: _S.DEPLOYED, _E.TAKEN_DOWN: _S.IDLE},
}
"""The state that follows, by state and event."""


def may_follow(state: ManagerState, event: ManagerEvent) -> bool:
    """Return whether an event can come in a state; what comes out of turn changes nothing."""
    return event in TRANSITIONS[state]


def after(state: ManagerState, event: ManagerEvent) -> ManagerState:
    """Return the state that follows.

    Raises:
        BugError: the event cannot come in this state.
    """
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise BugError(f"a task manager of which {state.value!r} holds cannot meet the event {event.value!r}")
    return following
