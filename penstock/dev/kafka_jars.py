"""The jars of Apache Kafka: fetched once from Maven Central by jgo, checked against ``kafka_jars.lock``, and kept.

Used by `kafka_broker`. The lock holds the SHA-256 of every jar that Kafka needs to run; nothing else is ever started.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.model.errors import UserError
from penstock.model.installation import extra_install_command

KAFKA_VERSION = "4.2.1"
LOCK = Path(__file__).with_name("kafka_jars.lock")
PATIENCE_S = 60
"""Time limit for an answer of Maven Central."""


class BrokerError(UserError):
    """A broker cannot be had or does not run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A file of Maven Central, by group, artifact and version, with its SHA-256 in hexadecimal digits."""

    sha256: str
    coordinate: str

    @property
    def file_name(self) -> str:
        """Its name in the folder of jars."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"


def user_cache_folder() -> Path:
    """Return the folder of this user for files that can be fetched again; it need not exist."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "penstock"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/penstock").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "penstock"


def jars_folder(cache: Path | None = None) -> Path:
    """Return the folder of the jars, which need not exist: below ``cache``, by default that of this user."""
    return (cache or user_cache_folder()) / f"kafka-{KAFKA_VERSION}"


def locked_jars() -> list[Jar]:
    """Return the jars that Kafka needs."""
    return [Jar(*line.split()) for line in LOCK.read_text(encoding="ascii").splitlines()]


def kafka_jars(cache: Path | None = None, tell: Callable[[str], None] = lambda line: None) -> Path:
    """Return a folder with the jars of Kafka and nothing else, fetched if it is not there; ``tell`` hears of that.

    Whole folders appear at once, so a fetch that is cut off, or two at a time, do no harm.

    Raises:
        BrokerError: jgo is not installed, a jar cannot be fetched, or is not the one it should be.
    """
    folder = jars_folder(cache)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as work:
        fetched = Path(work, "jars")
        fetched.mkdir()
        jars = locked_jars()
        tell(f"fetching Apache Kafka {KAFKA_VERSION} from Maven Central: {len(jars)} files, 45 MB, once")
        _fetch(jars, Path(work, "repository"), fetched)
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


def _fetch(jars: list[Jar], repository: Path, into: Path) -> None:
    try:
        from jgo.config import GlobalSettings
        from jgo.constants import MAVEN_CENTRAL_URL
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise BrokerError(f"a Kafka broker is fetched by jgo: {extra_install_command('broker')}") from error
    mirrors = GlobalSettings.load().repositories
    context = MavenContext(
        resolver=PythonResolver(),
        repo_cache=repository,
        remote_repos={**mirrors, "central": MAVEN_CENTRAL_URL},
        timeout=PATIENCE_S,
    )
    for jar in jars:
        group, artifact, version = jar.coordinate.split(":")
        try:
            artifact_file = context.project(group, artifact).at_version(version).artifact().resolve()
        except (OSError, RuntimeError) as error:
            raise BrokerError(
                f"{jar.file_name} of Apache Kafka cannot be fetched ({error}); see to the network, or name a mirror in "
                "the section [repositories] of ~/.config/jgo.conf."
            ) from error
        artifact_file = Path(artifact_file)
        if hashlib.sha256(artifact_file.read_bytes()).hexdigest() != jar.sha256:
            raise BrokerError(
                f"{jar.file_name} that came from Maven is not the one Penstock knows (its SHA-256 differs), and is not "
                "used; try again, without a mirror."
            )
        shutil.move(artifact_file, into / jar.file_name)
