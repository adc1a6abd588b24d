"""Calls of connectors by a session of checkpoints, beside commits."""

from collections.abc import Mapping

from penstock.model.connectors import Sink, Source
from penstock.state.checkpoints.manifest import CheckpointManifest


def tell_sources(sources: Mapping[str, Source], manifest: CheckpointManifest) -> None:
    """Let sources know how far they need not be read again."""
    for entry in manifest.sources:
        source = sources.get(entry.operator)
        if source is not None:
            source.committed(manifest.job, {name: at["at"] for name, at in entry.positions.items()})


def widen_sinks(sinks: Mapping[str, Sink], writers: Mapping[str, int]) -> None:
    """Let sinks have so many writers, some of which are to follow those that run.

    Raises:
        PenstockError: one cannot.
    """
    for name, count in writers.items():
        sinks[name].resize(count, running=True)
