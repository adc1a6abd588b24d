"""The commands that run Kafka's programs on a Java, for `kafka_broker`.

A Java spends half of a start on loading classes. The first broker of this user that stops cleanly leaves an archive of
them (class data sharing) beside the jars; every later one maps it, and is up in half the time.
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from penstock.dev.java import Java

HEAP_MB = 512
LARGE_HEAP_MB = 1024

_LOGGING = (
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)


@dataclass(frozen=True, slots=True)
class KafkaRuntime:
    """A Java and a folder with the jars of Kafka."""

    java: Java
    jars: Path

    @property
    def archive(self) -> Path:
        """The path of the archive of classes; one belongs to one build of Java, and to jars in one place."""
        digest = hashlib.sha256(f"{self.java.build} {self.jars}".encode()).hexdigest()[:12]
        return self.jars.with_name(f"{self.jars.name}-{digest}.jsa")

    @property
    def has_archive(self) -> bool:
        """True if there is an archive."""
        return self.archive.is_file()

    def broker_command(self, properties: Path, *, large: bool, classes: Path | None) -> list[str]:
        """Return the command of a broker; ``large`` for measurements. ``classes``: where it leaves an archive."""
        heap = (f"-Xmx{LARGE_HEAP_MB}m",) if large else (f"-Xmx{HEAP_MB}m", "-XX:TieredStopAtLevel=1")
        written = (f"-XX:ArchiveClassesAtExit={classes}",) if classes is not None else ()
        options = (*heap, f"-Xms{HEAP_MB // 2}m", *written)
        return self._command(options, "kafka.Kafka", str(properties), shared=classes is None)

    def tool_command(self, *arguments: str) -> list[str]:
        """Return a command of Kafka's StorageTool."""
        return self._command(("-Xmx128m", "-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", *arguments)

    def keep_archive(self, written: Path) -> None:
        """Keep an archive that a broker has written; nothing if there is none."""
        if not written.is_file():
            return
        part = self.archive.with_name(f"{self.archive.name}.{os.getpid()}.part")
        shutil.move(written, part)
        part.replace(self.archive)

    def _command(self, options: tuple[str, ...], program: str, *arguments: str, shared: bool = True) -> list[str]:
        archive = (f"-XX:SharedArchiveFile={self.archive}",) if shared and self.has_archive else ()
        return [str(self.java.executable), *options, "-XX:+UseSerialGC", *archive, *_LOGGING, "-cp",
                str(self.jars / "*"), program, *arguments]  # fmt: skip
