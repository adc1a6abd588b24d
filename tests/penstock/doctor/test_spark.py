"""What `penstock doctor` says of Spark, each on values handed to it; and of a machine without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import penstock
from penstock.dev.java import Java
from penstock.doctor import spark as doctor
from penstock.doctor.environment import Check
from penstock.doctor.requirements import Requirement
from penstock.doctor.spark import Interpreter
from penstock.model.installation import installed_version

ROOT = Path(penstock.__file__).resolve().parents[1]
OWN = sys.version_info[:2]
PYSPARK = Requirement("pyspark", ((">=", "4.3"),), "spark")
PANDAS = Requirement("pandas", ((">=", "2.2"), ("<", "3")), "spark")


def java(major: int) -> Java:
    return Java(Path("/java"), major, f"{major}.0.1", "PATH")


@pytest.mark.parametrize(
    ("check", "status", "advice"),
    [
        (doctor.check_spark_library(PYSPARK, "4.3.0"), "ok", ""),
        (doctor.check_spark_library(PYSPARK, "3.5.1"), "warn", "pip install 'pyspark>=4.3'"),
        (doctor.check_spark_library(PYSPARK, "4.3.0", "ImportError: no"), "warn", "--force-reinstall"),
        (doctor.check_spark_library(PANDAS, "3.0.1"), "warn", "pip install 'pandas>=2.2,<3'"),
        (doctor.check_spark_library(PANDAS, None), "warn", doctor.INSTALL),
        (doctor.check_spark_java(java(17)), "ok", ""),
        (doctor.check_spark_java(java(25)), "ok", ""),
        (doctor.check_spark_java(java(24)), "warn", "JAVA_HOME"),
        (doctor.check_spark_java(None), "warn", doctor.INSTALL),
        (doctor.check_workers(None, None), "ok", ""),
        (doctor.check_workers("./environment/bin/python", None), "ok", ""),
        (doctor.check_workers("/python", Interpreter(OWN)), "ok", ""),
        (doctor.check_workers("/python", Interpreter((3, 9))), "warn", f"Python {OWN[0]}.{OWN[1]}"),
        (doctor.check_workers("/python", Interpreter(OWN, ("penstock",))), "warn", doctor.INSTALL),
        (doctor.check_home("/opt/spark", "4.3.1", "4.3.0"), "ok", ""),
        (doctor.check_home("/opt/spark", "3.5.1", "4.3.0"), "warn", "pyspark==3.5.1"),
        (doctor.check_home("/opt/spark", None, "4.3.0"), "warn", "unset SPARK_HOME"),
        (doctor.check_connect("sc://spark", ["grpcio"]), "warn", "pyspark[connect]"),
        (doctor.check_connect("sc://spark", []), "ok", ""),
    ],
)
def test_judgement(check: Check, status: str, advice: str) -> None:
    assert check.status == status
    assert check.finding
    assert bool(check.advice) == bool(advice) and advice in check.advice


def test_this_machine_is_examined() -> None:
    checks = {check.name: check for check in doctor.examine_spark()}
    assert {"pyspark", "pandas", "Java for Spark", "Python of Spark"} <= set(checks)
    assert checks["pyspark"].finding == installed_version("pyspark")


def test_another_python_is_asked_what_it_is(tmp_path: Path) -> None:
    assert doctor.look_at_python(sys.executable) == Interpreter(OWN)
    assert doctor.look_at_python(str(tmp_path / "python")) is None
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    assert doctor.look_at_python(str(bare / "bin" / "python")) == Interpreter(OWN, doctor.WORKERS_NEED)


def test_a_spark_elsewhere_says_its_version(tmp_path: Path) -> None:
    assert doctor.spark_version(tmp_path) is None
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.1.jar").touch()
    assert doctor.spark_version(tmp_path) == "4.0.1"


DOCTOR = """
import sys
from penstock.commands.cli import main
try:
    main(["doctor", "--json"])
finally:
    print(*sys.modules, file=sys.stderr)
"""


def test_a_machine_without_spark_is_told_how_to_get_it(tmp_path: Path) -> None:
    libraries = Path(psutil.__file__).parents[1]
    for entry in libraries.iterdir():
        if not entry.name.startswith(("pyspark", "pandas", "py4j")):
            (tmp_path / entry.name).symlink_to(entry)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "SPARK_HOME": "/nowhere"}
    command = [sys.executable, "-S", "-c", DOCTOR]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    [told] = [check for check in json.loads(ran.stdout) if "park" in check["name"]]
    assert told["status"] == "ok" and doctor.INSTALL in told["advice"]
    assert not {"pyspark", "pandas", "py4j"} & set(ran.stderr.split())
