"""The checks of `penstock doctor`, each on values handed to it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.doctor import environment as doctor
from penstock.doctor.requirements import Requirement, missing_library, parse, requirements


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (doctor.check_python((3, 10, 4)), "fail"),
        (doctor.check_python((3, 11, 0)), "ok"),
        (doctor.check_python((3, 99, 0)), "warn"),
        (doctor.check_library(Requirement("numpy", ((">=", "2.0"),)), None), "fail"),
        (doctor.check_library(Requirement("numpy", ((">=", "2.0"),)), "1.26.4"), "fail"),
        (doctor.check_library(Requirement("numpy", ((">=", "2.0"),)), "2.4.6"), "ok"),
        (doctor.check_library(Requirement("numpy", ((">=", "2.0"),)), "2.4.6", "ImportError: no"), "fail"),
        (doctor.check_library(Requirement("duckdb", ((">=", "1.1"),), "bench"), None), "ok"),
        (doctor.check_library(Requirement("duckdb", ((">=", "1.1"),), "bench"), "0.9"), "warn"),
        (doctor.check_kernel_cache(Path("/kernels"), False, False), "fail"),
        (doctor.check_kernel_cache(Path("/kernels"), True, False), "ok"),
        (doctor.check_disk("disk", 5_000_000), "fail"),
        (doctor.check_disk("disk", 500_000_000), "warn"),
        (doctor.check_disk("disk", 50_000_000_000), "ok"),
        (doctor.check_memory(100_000_000), "fail"),
        (doctor.check_memory(600_000_000), "warn"),
        (doctor.check_memory(8_000_000_000), "ok"),
        (doctor.check_cores(0.5), "warn"),
        (doctor.check_cores(2), "ok"),
        (doctor.check_open_files(256), "warn"),
        (doctor.check_open_files(4096), "ok"),
        (doctor.check_open_files(None), "ok"),
        (doctor.check_clock(datetime(1970, 1, 1, tzinfo=UTC)), "fail"),
        (doctor.check_clock(datetime(2030, 1, 1, tzinfo=UTC)), "ok"),
        (doctor.check_time_zone(None), "ok"),
        (doctor.check_time_zone("Europe/Paris"), "ok"),
        (doctor.check_time_zone("Mars/Olympus"), "warn"),
        (doctor.check_terminal(True, "latin-1", {}), "warn"),
        (doctor.check_terminal(True, "UTF-8", {"NO_COLOR": "1"}), "ok"),
        (doctor.check_terminal(False, "utf-8", {}), "ok"),
    ],
)
def test_judgement(check: doctor.Check, status: str) -> None:
    assert check.status == status
    assert check.finding
    assert check.advice or status == "ok", "whatever is wrong says what to do"


def test_this_machine_is_examined() -> None:
    checks = doctor.examine()
    names = [check.name for check in checks]
    assert {"Python", "numba", "pyarrow", "kernel cache", "memory", "cores", "clock", "terminal"} <= set(names)
    assert all(check.status in ("ok", "warn", "fail") for check in checks)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("numpy>=2.0", Requirement("numpy", ((">=", "2.0"),))),
        ("sqlglot<31,>=30", Requirement("sqlglot", (("<", "31"), (">=", "30")))),
        ('duckdb>=1.1; extra == "bench"', Requirement("duckdb", ((">=", "1.1"),), "bench")),
        ("rich (>=13)", Requirement("rich", ((">=", "13"),))),
        ("penstock[sketches,bench]", None),
    ],
)
def test_requirement_lines(line: str, expected: Requirement | None) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    ("version", "allowed"), [("30", True), ("30.30.0", True), ("29.9", False), ("31.0.0", False), ("31", False)]
)
def test_bounds(version: str, allowed: bool) -> None:
    assert Requirement("sqlglot", ((">=", "30"), ("<", "31"))).allows(version) is allowed


def test_requirements_are_those_of_the_project() -> None:
    known = {requirement.library: requirement for requirement in requirements()}
    assert {"numba", "numpy", "pyarrow", "sqlglot", "typer"} <= set(known)
    assert known["numba"].extra is None and known["datasketches"].extra == "sketches"


def test_a_missing_library_of_ours_is_told_from_one_of_the_user_s() -> None:
    assert missing_library(ModuleNotFoundError("no", name="datasketches")) == "datasketches"
    assert missing_library(ModuleNotFoundError("no", name="my_helpers")) is None
    assert missing_library(ValueError("no")) is None
    wrapped = RuntimeError("sketches are needed")
    wrapped.__cause__ = ImportError("no", name="datasketches")
    assert missing_library(wrapped) == "datasketches"


@pytest.mark.parametrize("library", ["confluent-kafka", "prometheus-client", "pyarrow"])
def test_what_pip_names_with_a_dash_is_imported(library: str) -> None:
    assert doctor.import_problem(library) is None


def test_what_is_not_there_is_told() -> None:
    assert "No module named 'no_such_library'" in str(doctor.import_problem("no-such-library"))
