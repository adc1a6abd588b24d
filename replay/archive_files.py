"""The folder of one topic's archive: its manifest, the folders that runs write, and how Spark names what is there.

Files count once the manifest has them; what it does not have is of a run that was killed or that lost a race.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from penstock.model.errors import OptionError, RetryableError, UserError
from penstock.replay.archive_manifest import ArchiveManifest, empty, parse
from penstock.state.files.arrow_files import open_files

MANIFEST = "archive.json"

_RUN = re.compile(r"run-(\d{6,})-[0-9a-f]{8}\Z")
_PATTERNS = "{}[]*?\\"


class ArchiveFiles:
    """The archive of a topic below ``url``: a path, ``file://``, ``s3://``, ``gs://`` or ``hdfs://``."""

    def __init__(self, url: str, topic: str) -> None:
        """Touch nothing yet.

        Raises:
            OptionError: the address cannot be used.
        """
        if any(character in url for character in _PATTERNS):
            raise OptionError(f"{url!r} cannot hold an archive: Spark reads {' '.join(_PATTERNS)} in paths as patterns")
        self.topic = topic
        self.where = f"{url.rstrip('/')}/{topic}"
        self._files = open_files(url, topic)
        self._local = _local_folder(url, topic)
        self._spark = _spark_address(url, topic)

    def manifest(self) -> ArchiveManifest:
        """Return what is archived, nothing if there is no archive yet.

        Raises:
            UserError: there is something else.
            RetryableError: the storage failed.
        """
        try:
            content = self._files.read(MANIFEST)
        except FileNotFoundError:
            return empty(self.topic)
        manifest = parse(content, f"{self.where}/{MANIFEST}")
        if manifest.topic != self.topic:
            raise UserError(f"{self.where} is the archive of topic {manifest.topic!r}, not of {self.topic!r}")
        return manifest

    def new_run(self, manifest: ArchiveManifest) -> str:
        """Return the name of a folder for the next run."""
        return f"run-{manifest.runs + 1:06d}-{uuid4().hex[:8]}"

    def spark_path(self, path: str) -> str:
        """Return what Spark calls a file or folder of the archive."""
        return f"{self._spark}/{path}"

    def publish(self, new: ArchiveManifest, before: ArchiveManifest, run: str) -> None:
        """Let what a run wrote count, unless another run has come first.

        Raises:
            UserError: another run did, or Spark wrote somewhere else.
            RetryableError: the storage failed; nothing counts.
        """
        if self._local is not None:
            self._make_durable(self._local / run)
        if self.manifest() != before:
            raise UserError(
                f"another run has written to {self.where} meanwhile, so this one counts for nothing: run one at a time"
            )
        self._files.write(MANIFEST, new.to_json())

    def clean(self, manifest: ArchiveManifest) -> None:
        """Remove what runs left behind that can count no more: theirs has become another's number."""
        files = [file.path for item in manifest.ranges for file in item.files]
        used = {path.partition("/")[0] for path in files}
        for folder in self._files.folders(""):
            number = _RUN.match(folder)
            if number is not None and int(number[1]) <= manifest.runs and folder not in used:
                self._files.delete_folder(folder)

    def _make_durable(self, folder: Path) -> None:
        """Bring to the disk what Spark has written, which syncs nothing."""
        if not folder.is_dir():
            raise UserError(
                f"Spark has not written to {folder} of this machine: name a place that it and this process share"
            )
        try:
            for base, _, names in os.walk(folder, topdown=False):
                for name in names:
                    _sync(Path(base, name))
                _sync(Path(base))
            _sync(folder.parent)
        except OSError as error:
            raise RetryableError(f"{folder} cannot be synced to the disk: {error}") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _local_folder(url: str, topic: str) -> Path | None:
    if "://" not in url:
        return Path(url).expanduser().absolute() / topic
    return Path(unquote(urlsplit(url).path)) / topic if url.startswith("file://") else None


def _spark_address(url: str, topic: str) -> str:
    """Return the address in the words of Hadoop, which calls S3 by another name."""
    local = _local_folder(url, topic)
    if local is not None:
        return f"file://{local}"
    return re.sub(r"^s3://", "s3a://", f"{url.rstrip('/')}/{topic}")
