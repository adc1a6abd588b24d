"""The life of a task manager as the head knows it: one table of transitions."""

from collections.abc import Mapping
from enum import Enum

from penstock.model.errors import BugError


class ManagerState(Enum):
    """States of a task manager, each a thing that holds of it."""

    STARTED = "its process was started, it has not joined"
    IDLE = "it has joined and has no instances"
    DEPLOYED = "it builds instances, or has built them and awaits the start"
    RUNNING = "its instances run"
    DRAINING = "it ends its instances in order, and then itself"
    LOST = "it gave no sign of life, or its process ended: its instances are lost, and nothing it says counts"
    GONE = "its process has ended and was waited for"


class ManagerEvent(Enum):
    """Events in the life of a task manager."""

    JOINED = "its first message came"
    DEPLOY_ORDERED = "instances were ordered"
    START_ORDERED = "everything is built everywhere, its instances were told to run"
    TAKEN_DOWN = "it has released all of its instances"
    DRAIN_ORDERED = "it was told to end"
    LOST = "it gave no sign of life for too long, its link broke or its process ended"
    REAPED = "its process has ended and was waited for"


_S, _E = ManagerState, ManagerEvent

TRANSITIONS: Mapping[ManagerState, Mapping[ManagerEvent, ManagerState]] = {
    _S.STARTED: {_E.JOINED: _S.IDLE, _E.DRAIN_ORDERED: _S.DRAINING, _E.LOST: _S.LOST},
    _S.IDLE: {_E.DEPLOY_ORDERED: _S.DEPLOYED, _E.DRAIN_ORDERED: _S.DRAINING, _E.LOST: _S.LOST},
    # Another region may be deployed where one runs.
    _S.DEPLOYED: {
        _E.DEPLOY_ORDERED: _S.DEPLOYED,
        _E.START_ORDERED: _S.RUNNING,
        _E.TAKEN_DOWN: _S.IDLE,
        _E.DRAIN_ORDERED: _S.DRAINING,
        _E.LOST: _S.LOST,
    },
    _S.RUNNING: {
        _E.DEPLOY_ORDERED: _S.DEPLOYED,
        _E.TAKEN_DOWN: _S.IDLE,
        _E.DRAIN_ORDERED: _S.DRAINING,
        _E.LOST: _S.LOST,
    },
    _S.DRAINING: {_E.TAKEN_DOWN: _S.DRAINING, _E.LOST: _S.LOST, _E.REAPED: _S.GONE},
    _S.LOST: {_E.LOST: _S.LOST, _E.REAPED: _S.GONE},
    _S.GONE: {},
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
