"""The commands over Spark Connect: one server, another process that knows it by its address only."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import penstock
from penstock.dev.java import find_java
from penstock.model.errors import RetryableError
from penstock.replay import session
from penstock.replay.java_shim import make_java_home, make_log_settings
from tests.kafka.conftest import MakeTopic
from tests.replay.kafka_rows import produce

ROOT = Path(penstock.__file__).resolve().parents[1]
SPARK = Path(pyspark.__file__).parent

PIPELINE = """
import sys
from pathlib import Path
import pyarrow as pa
import penstock as ps
from penstock import count, sum_, tumbling
from beside import trebled

kafka, topic, folder, broken = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
schema = {"id": int, "at": pa.timestamp("us", "UTC"), "shop": str}

def doubled(row):
    if broken and row["id"] == 7:
        raise ValueError("seven")
    return {**row, "id": 2 * row["id"]}

def numbered(row, context):
    yield {**row, "id": context.state.n.get()}
    context.state.n.set(context.state.n.get() + 1)

topic = ps.read_kafka(topic, kafka=kafka, schema=schema, time="at", watermark="5s", until="latest").name("topic")
called = topic.map(doubled, on_error="fail").map(trebled)
windows = called.key_by("shop").window(tumbling("10s")).agg(n=count(), total=sum_("id"))
windows.name("totals").write_parquet(folder / "windows").name("windows")
file = ps.read_parquet(folder / "rows.parquet", time="at", watermark="5s").name("file")
state = {"n": ps.value_state(int, default=0)}
numbers = file.key_by("shop").process(numbered, state=state).name("numbers")
numbers.write_json(folder / "numbered").name("numbered")
ps.run("shops", checkpoint_dir=folder / "checkpoints", at_end="close")
"""
BESIDE = "def trebled(row):\n    return {**row, 'id': 3 * row['id']}\n"
"""A module of the user's, which the server is sent."""


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a server that runs for seconds."""

START_S = 280.0
"""How long a server may take to start on a loaded machine."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose Python has Penstock, but none of the user's modules."""
    folder = tmp_path_factory.mktemp("server")
    java, port = find_java(), free_port()
    assert java is not None
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "768m",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.extraJavaOptions": f"{QUICK} -Dlog4j2.configurationFile={make_log_settings(folder).as_uri()}",
    }
    command = [SPARK / "bin" / "spark-submit", "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        "JAVA_HOME": str(make_java_home(folder, java.executable)),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with subprocess.Popen([*command, "spark-internal"], env=environment, cwd=folder) as running:
        try:
            yield f"sc://127.0.0.1:{port}"
        finally:
            for child in psutil.Process(running.pid).children(recursive=True):
                child.kill()
            running.kill()


def await_server(address: str) -> None:
    """Return once a server listens: it starts while the test does something else."""
    until = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < until, "the server of Spark Connect does not start"
            time.sleep(0.1)


def ask(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.long(
    "a server of Spark Connect and four commands; test_validation.test_the_commands has Spark in the process"
)
def test_a_pipeline_is_validated_and_replayed_by_a_server(
    server: str, kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    (tmp_path / "shops.py").write_text(PIPELINE)
    (tmp_path / "beside.py").write_text(BESIDE)
    messages = [
        b'{"id":%d,"at":"2024-01-01T00:%02d:%02d.000Z","shop":"s%d"}' % (n, n // 60, n % 60, n % 3) for n in range(600)
    ]
    name = topic()
    produce(kafka, name, messages)
    at = pa.array([1_700_000_000_000_000 + 10_000 * n for n in range(2_000)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": range(2_000), "at": at, "shop": [f"s{n % 5}" for n in range(2_000)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    arguments = ("--", kafka, name, tmp_path)
    ran = ask("run", tmp_path / "shops.py", *arguments)
    assert ran.returncode == 0, ran.stderr
    await_server(server)

    there = ("--master", server, "--spark-setting", f"spark.submit.pyFiles={tmp_path / 'beside.py'}", "--json")
    validated = ask(
        "validate", tmp_path / "shops.py", *there, "--sink", "windows", "--out", tmp_path / "report", *arguments
    )
    assert validated.returncode == 0, validated.stdout + validated.stderr
    told = {query["query"]: query for query in json.loads(validated.stdout)["queries"]}
    assert {query: (item["status"], item["same"]) for query, item in told.items()} == {"windows": ("same", 180)}

    replayed = ask("replay", tmp_path / "shops.py", *there, "--out", tmp_path / "exact", *arguments)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert pq.read_table(tmp_path / "exact" / "windows").num_rows == 180
    numbered = pq.read_table(tmp_path / "exact" / "numbered").sort_by([("shop", "ascending"), ("at", "ascending")])
    assert numbered["id"].to_pylist() == [*range(400)] * 5

    failed = ask("replay", tmp_path / "shops.py", *there, "--out", tmp_path / "broken", *arguments, "broken")
    assert failed.returncode == 1
    assert "ValueError: seven" in json.loads(failed.stdout)["error"]


def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_PATIENCE_S", 0.5)
    answer = r"no server of Spark Connect answers at sc://127\.0\.0\.1:"
    with pytest.raises(RetryableError, match=answer), session.spark_session(f"sc://127.0.0.1:{free_port()}"):
        pass
