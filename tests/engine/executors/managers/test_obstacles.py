"""What cannot go to another process is named: the operator, the user's line, the object and what to do."""

import functools
import inspect
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.executors.managers import plan_parcel
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_sinks
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import plan
from penstock.model.config import LoopOptions
from penstock.model.connectors import Reader, Writer
from penstock.model.errors import PlanError

ROWS = [{"a": 1}]
FIELDS = {"a": int}


def packed(build: Callable[[ps.Stream], Any]) -> bytes:
    job = Job()
    build(ps.read_memory(ROWS, job=job))
    return pack_plan(JobPlan("job", plan(job.graph, 1, apart=True), LoopOptions(), Path()))


def refusal(build: Callable[[ps.Stream], Any]) -> str:
    with pytest.raises(PlanError) as raised:
        packed(build)
    return str(raised.value)


def of_map(function: Callable[[Any], Any]) -> str:
    """Return what is said of a map, behind its name and place."""
    line = 0

    def build(stream: ps.Stream) -> None:
        nonlocal line
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        stream.map(function, schema=FIELDS).write_black_hole()

    text = refusal(build)
    start = f"'map-1' ({__file__}:{line}) cannot go to another process: "
    assert text.startswith(start), text
    return text.removeprefix(start)


def test_a_generator_is_named() -> None:
    rows = (row for row in ROWS)
    assert of_map(lambda row: next(rows)) == "its function holds a generator 'rows'; make it inside the function"


@pytest.mark.parametrize("mode", ["r", "rb", "w"])
def test_an_open_file_is_named(tmp_path: Path, mode: str) -> None:
    (tmp_path / "rates").write_text("1")
    with (tmp_path / "rates").open(mode) as rates:
        said = of_map(lambda row: {"a": len(rates.read())})
    assert said == "its function holds an open file 'rates'; open it inside the function"


def test_a_lock_is_named() -> None:
    for kind, lock in (("a lock", threading.Lock()), ("a lock", threading.RLock()), ("an event", threading.Event())):
        said = of_map(lambda row, lock=lock: row)
        assert said == f"its function holds {kind} 'lock'; make it inside the function"


def test_a_socket_is_named() -> None:
    with socket.socket() as connection:
        said = of_map(lambda row: {"a": connection.fileno()})
    assert said == "its function holds a socket 'connection'; open it inside the function"


class Client:
    def __init__(self) -> None:
        self.settings = {"retries": 3}
        self.connections = [threading.Lock()]

    def ask(self, row: Any) -> Any:
        return row


def test_the_smallest_object_is_blamed() -> None:
    client = Client()
    holds = "its function holds a lock"
    assert of_map(lambda row: client.ask(row)) == f"{holds} 'client.connections[0]'; make it inside the function"
    assert of_map(client.ask) == f"{holds} 'connections[0]'; make it inside the function"
    by_name = {"first": client}
    said = of_map(functools.partial(lambda row, clients: row, clients=by_name))
    assert said == f"{holds} \"clients['first'].connections[0]\"; make it inside the function"


def test_an_object_of_another_kind_is_named_by_its_type() -> None:
    frame = sys._getframe()
    said = of_map(lambda row: {"a": frame.f_lineno})
    assert said == "its function holds an object of type frame 'frame'; make it inside the function"


def test_globals_of_the_main_module_are_searched(tmp_path: Path) -> None:
    script = """
import threading
from pathlib import Path
import penstock as ps
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import plan
from penstock.model.config import LoopOptions

guard = threading.Lock()

class Missing:
    def __reduce__(self):
        return "MISSING"

MISSING = Missing()

def inner(row):
    with guard:
        return row

class Counted(ps.Process):
    def process(self, row, context):
        return (inner(item) for item in [row])

def check(add):
    job = ps.Job()
    add(ps.read_memory([{"a": 1}], job=job)).write_black_hole()
    try:
        pack_plan(JobPlan("job", plan(job.graph, 1), LoopOptions(), Path()))
    except ps.PlanError as error:
        print(error)

check(lambda rows: rows.map(lambda row: inner(row)))
check(lambda rows: rows.key_by("a").process(Counted(), schema={"a": int}, order="arrival"))
check(lambda rows: rows.filter(lambda row: row["a"] is not MISSING))
"""
    (tmp_path / "app.py").write_text(script)
    ran = subprocess.run([sys.executable, str(tmp_path / "app.py")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    first, second, third = ran.stdout.splitlines()
    said = re.search(r"'map-1' \(.*app.py:\d+\) cannot go to another process: (.*)", first)
    assert said is not None
    assert said[1] == "its function holds a lock 'inner.guard'; make it inside the function"
    assert second.endswith("its function holds a lock 'process.inner.guard'; make it inside the function")
    # A name in the main module of this process would mean nothing in another.
    assert third.endswith(
        "its function holds an object of type __main__.Missing 'MISSING'; make it inside the function"
    )


class Held(ps.Source):
    def __init__(self) -> None:
        self.connection = threading.Lock()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema({"a": pa.int64()})

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        raise AssertionError("it is not opened")


class Kept(ps.Sink):
    def __init__(self) -> None:
        self.client = Client()

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        raise AssertionError("it is not opened")


def test_sources_and_sinks_are_told_where_to_make_it() -> None:
    job = Job()
    ps.read(Held(), job=job).write_black_hole()
    with pytest.raises(PlanError) as raised:
        pack_plan(JobPlan("job", plan(job.graph, 1), LoopOptions(), Path()))
    said = "its source holds a lock 'connection'; make it where the source opens a partition"
    assert str(raised.value).endswith(said)
    said = "its sink holds a lock 'client.connections[0]'; make it where the sink opens a writer"
    assert refusal(lambda rows: rows.write(Kept())).endswith(said)
    job = Job()
    ps.read_memory(ROWS, job=job).write(Kept()).name("out")
    with pytest.raises(PlanError, match=r"'out' \(.*test_obstacles.py:\d+\) cannot go") as raised:
        pack_sinks(plan(job.graph, 1))
    assert str(raised.value).endswith(said)


def test_an_iterator_that_a_function_makes_goes_and_one_that_it_holds_does_not() -> None:
    def read(items: Any) -> bytes:
        job = Job()
        ps.read_iterable(items, schema=FIELDS, job=job).write_black_hole()
        return pack_plan(JobPlan("job", plan(job.graph, 1, apart=True), LoopOptions(), Path()))

    assert read(lambda: (row for row in ROWS))
    assert read(row for row in ROWS)
    rows = (row for row in ROWS)
    with pytest.raises(PlanError, match="its source holds a generator 'rows'; make it where"):
        read(lambda: rows)


def test_standard_output_goes_along() -> None:
    stream = sys.stdout
    assert packed(lambda rows: rows.map(lambda row: {"a": stream.fileno()}, schema=FIELDS).write_black_hole())


def test_an_operator_that_holds_too_much_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_parcel, "MOST_BYTES", 20_000)
    table = ps.lookup_table([{"a": number, "text": "x" * 100} for number in range(1_000)])
    said = refusal(lambda rows: rows.filter(ps.col("a") > 0).lookup(table, on="a").write_black_hole())
    assert re.fullmatch(
        r"the plan has 1\d\d,\d{3} bytes, most of them in 'lookup-1' \(.*test_obstacles.py:\d+\), and 20,000 can go to "
        r"another process: let it read what it holds from files",
        said,
    ), said
    assert packed(lambda rows: rows.filter(ps.col("a") > 0).write_black_hole())
