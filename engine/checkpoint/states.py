"""The states of the checkpoint coordinator and the one table of its transitions."""

from collections.abc import Mapping
from enum import Enum

from penstock.engine.checkpoint.events import (
    AlignmentFailed,
    BarriersHeld,
    CommitFailed,
    Committed,
    DrainRequested,
    Event,
    InstanceEnded,
    InstanceFailed,
    InstanceSnapshotted,
    Joined,
    Published,
    PublishFailed,
    Requested,
    Started,
    Tick,
    UploadFailed,
    UploadFinished,
)


class CheckpointState(Enum):
    """States of the coordinator, each a thing it waits for. An attempt may be restarted in HALTED only."""

    READY = "no checkpoint is in flight"
    ALIGNING = "barriers travel"
    UPLOADING = "every instance has delivered, the upload runs"
    PUBLISHING = "the manifest is being published"
    COMMITTING = "the sinks commit"
    HALTING_AT_PUBLISH = "an instance failed, and whether the manifest is there must be known before a restart"
    HALTING_AT_COMMIT = "an instance failed, and the commit must have come to an end before a restart"
    HALTED = "instances are down, a start is awaited"
    OVER = "the last checkpoint is committed"


_S = CheckpointState


def _always(state: CheckpointState) -> dict[type[Event], frozenset[CheckpointState]]:
    """Return what may come at any time and changes nothing by itself."""
    anytime = (Tick, Requested, DrainRequested, BarriersHeld, InstanceEnded, InstanceFailed)
    return dict.fromkeys(anytime, frozenset({state}))


def _to(*states: CheckpointState) -> frozenset[CheckpointState]:
    return frozenset(states)


TRANSITIONS: Mapping[CheckpointState, Mapping[type[Event], frozenset[CheckpointState]]] = {
    _S.READY: {
        **_always(_S.READY),
        Joined: _to(_S.READY),
        Tick: _to(_S.READY, _S.ALIGNING, _S.UPLOADING),
        InstanceFailed: _to(_S.HALTED),
    },
    _S.ALIGNING: {
        **_always(_S.ALIGNING),
        Tick: _to(_S.ALIGNING, _S.READY, _S.UPLOADING),
        InstanceSnapshotted: _to(_S.ALIGNING, _S.UPLOADING),
        AlignmentFailed: _to(_S.READY),
        InstanceEnded: _to(_S.ALIGNING, _S.UPLOADING),
        InstanceFailed: _to(_S.HALTED),
    },
    _S.UPLOADING: {
        **_always(_S.UPLOADING),
        Tick: _to(_S.UPLOADING, _S.READY, _S.ALIGNING),
        UploadFinished: _to(_S.PUBLISHING),
        UploadFailed: _to(_S.READY),
        InstanceFailed: _to(_S.HALTED),
    },
    _S.PUBLISHING: {
        **_always(_S.PUBLISHING),
        Published: _to(_S.COMMITTING),
        PublishFailed: _to(_S.READY),
        InstanceFailed: _to(_S.HALTING_AT_PUBLISH),
    },
    _S.COMMITTING: {
        **_always(_S.COMMITTING),
        Committed: _to(_S.READY, _S.OVER),
        CommitFailed: _to(_S.HALTED),
        InstanceFailed: _to(_S.HALTING_AT_COMMIT),
    },
    _S.HALTING_AT_PUBLISH: {
        **_always(_S.HALTING_AT_PUBLISH),
        Published: _to(_S.HALTED),
        PublishFailed: _to(_S.HALTED),
    },
    _S.HALTING_AT_COMMIT: {
        **_always(_S.HALTING_AT_COMMIT),
        Committed: _to(_S.HALTED),
        CommitFailed: _to(_S.HALTED),
    },
    _S.HALTED: {
        **_always(_S.HALTED),
        Started: _to(_S.READY, _S.COMMITTING),
    },
    _S.OVER: _always(_S.OVER),
}
"""The states that may follow, by state and event; an event that is not listed is a bug of whoever sent it."""

TRAVELLING = frozenset({_S.ALIGNING, _S.UPLOADING})
"""Barriers are on their way, or what they cut is stored yet."""

STAGES = {
    _S.ALIGNING: 0,
    _S.UPLOADING: 1,
    _S.PUBLISHING: 2,
    _S.HALTING_AT_PUBLISH: 2,
    _S.COMMITTING: 3,
    _S.HALTING_AT_COMMIT: 3,
}
"""How far the epoch in flight has come: the order in which its answers are awaited."""

AFTER_ALL_STAGES = 4
