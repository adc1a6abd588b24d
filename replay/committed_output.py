"""The part of a sink's output that a checkpoint covers: its job may have gone on, or not have published it yet.

Called by `stream_output` for files and by `topic_output` for topics written exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.files.manifest import newest_manifest
from penstock.engine.connectors.files.sinks import FileSink
from penstock.engine.connectors.files.staged_files import epoch_of
from penstock.engine.connectors.kafka.clients import make_marker_reader
from penstock.engine.connectors.kafka.markers import read_marker
from penstock.engine.connectors.kafka.receipts import Marker, from_receipts
from penstock.engine.connectors.kafka.sink import KafkaSink, transactional_id
from penstock.model.job_graph import OperatorNode
from penstock.replay.frames import ReplayError

_TRIES, _PAUSE_S = 20, 0.5
"""Time limit for a running job to publish what its checkpoint promises."""

_LOOK_S = 10.0
_MANIFESTS = "_penstock"


def committed_files(node: OperatorNode, sink: FileSink, checkpoint: Checkpoint | None) -> list[Path]:
    """Return the files of a sink in the order in which they were written, none later than the checkpoint.

    Raises:
        ReplayError: there are none, or what the checkpoint promises has not been put in place.
    """
    path = sink.path
    if checkpoint is not None and path.is_dir():
        _wait(lambda: _in_place(sink, checkpoint.epoch), node, checkpoint, str(path))
    files = [path] if path.is_file() else [item for item in path.glob(f"part-*{sink.suffix}") if item.is_file()]
    if not files and (checkpoint is None or newest_manifest(path / _MANIFESTS) is None):
        raise ReplayError(
            f"sink {node.name!r} has written nothing to {path} yet: has the job run, and from this folder?"
        )
    if checkpoint is not None:
        files = [file for file in files if (epoch_of(file.name) or 0) <= checkpoint.epoch]
    # A key's later rows are in files of later checkpoints; in one checkpoint they are in one file.
    return sorted(files, key=lambda file: (epoch_of(file.name) or 0, file.name))


class PublishedTopic:
    """The published epochs of a topic that is written exactly once, by the markers in its cluster."""

    def __init__(self, node: OperatorNode, sink: KafkaSink, checkpoint: Checkpoint) -> None:
        """Find out what the checkpoint promises; asks nobody yet."""
        self._node, self._sink, self._checkpoint = node, sink, checkpoint
        manifest = checkpoint.manifest
        instances = range(manifest.parallelism.get(node.name, 0))
        self._due = dict.fromkeys((transactional_id(manifest.job, node.name, number) for number in instances), 0)
        receipts = [item for entry in manifest.sinks if entry.operator == node.name for item in entry.receipts]
        for receipt in from_receipts(receipts, manifest.epoch):
            if receipt.rows:
                self._due[receipt.transactional_id] = receipt.epoch

    def wait(self) -> None:
        """Wait until everything up to the checkpoint is published.

        Raises:
            ReplayError: it does not come, or the cluster does not say.
        """
        _wait(self._is_there, self._node, self._checkpoint, f"topic {self._sink.topic!r}")

    def check_nothing_later(self) -> None:
        """Check that nothing behind the checkpoint has been published until now.

        Raises:
            ReplayError: some has, and where it begins is not known; or the cluster does not say.
        """
        epochs = [marker.epoch for marker in self._markers().values() if marker is not None]
        later = max(epochs, default=0)
        if later > self._checkpoint.epoch:
            raise ReplayError(
                f"sink {self._node.name!r} has published to topic {self._sink.topic!r} up to checkpoint {later}, and "
                f"{self._checkpoint.epoch} is replayed: validate again, for the newest, or stop the job first"
            )

    def _is_there(self) -> bool:
        markers = self._markers()
        return all(not epoch or _epoch(markers[name]) >= epoch for name, epoch in self._due.items())

    def _markers(self) -> Mapping[str, Marker | None]:
        epochs = {}
        for name in self._due:
            reader = make_marker_reader(self._sink.settings, name, name)
            try:
                epochs[name] = read_marker(reader, self._sink.topic, _LOOK_S)
            except KafkaException as error:
                raise ReplayError(
                    f"how far sink {self._node.name!r} has published to topic {self._sink.topic!r} cannot be told: the "
                    f"cluster does not say what group {name!r} has committed ({error})"
                ) from None
            finally:
                reader.close()
        return epochs


def _epoch(marker: Marker | None) -> int:
    return 0 if marker is None else marker.epoch


def _in_place(sink: FileSink, epoch: int) -> bool:
    manifest = newest_manifest(sink.path / _MANIFESTS)
    if manifest is None:
        # Written by a run without checkpoints.
        return True
    names = [file.name for item in manifest.epochs if item.epoch <= epoch for file in item.files]
    return manifest.epoch >= epoch and all((sink.path / name).is_file() for name in names)


def _wait(is_there: Callable[[], bool], node: OperatorNode, checkpoint: Checkpoint, where: str) -> None:
    pause = threading.Event()
    for _ in range(_TRIES):
        if is_there():
            return
        pause.wait(_PAUSE_S)
    raise ReplayError(
        f"sink {node.name!r} has not published to {where} what its checkpoint {checkpoint.epoch} promises: start the "
        "job again, or stop it well, and validate then"
    )
