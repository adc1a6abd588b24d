"""Ctrl-C: the first one ends a job cleanly, the second one at once."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.model.errors import RetryableError
from tests.long_cases import but_for
from tests.penstock.front_door import (
    Row,
    noon,
)

LONG_S = 60.0
"""Longer than anything here takes."""


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ENDLESS = """
    import itertools, json, sys
    from datetime import datetime, timedelta
    import penstock as ps

    def numbers():
        for number in itertools.count():
            yield {"number": number, "at": datetime(2025, 1, 1) + timedelta(milliseconds=number)}

    stream = ps.read_iterable(numbers, schema={"number": int, "at": datetime}, time="at")
    stream.write_json("rows.jsonl").parallelism(1)
    stream.write_parquet("parts")
    stream.window(ps.tumbling("1s")).agg(rows=ps.count()).write_csv("windows.csv")
    stream.for_each_batch(lambda rows: print("a batch", flush=True) if rows["number"][0].as_py() > 3000 else None)
    metrics = ps.run("endless", parallelism=2, batch_rows=1000)
    print(json.dumps({"rows": metrics.source_rows, "late": metrics.ledger.late}))
"""


def child(program: str, folder: Path) -> subprocess.Popen[str]:
    """Run a program of the user's; its first line says that it is under way."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(program))
    environment = {**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(file)],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background may have had interrupts ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a batch\n", process.communicate()
    return process


def test_ctrl_c_ends_an_endless_job_cleanly(tmp_path: Path) -> None:
    process = child(ENDLESS, tmp_path)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert errors.startswith("ONE CORE: ") and errors.count("\n") == 1
    told = json.loads(output.splitlines()[-1])
    numbers = [json.loads(text)["number"] for text in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert numbers == list(range(told["rows"]))
    assert pq.read_table(tmp_path / "parts").num_rows == told["rows"]
    windows = (tmp_path / "windows.csv").read_text().splitlines()[1:]
    assert [int(text.rsplit(",", 1)[1]) for text in windows] == [1000] * len(windows)
    assert told["rows"] - 1000 * len(windows) <= 2000
    assert told["late"] == 0
    assert not list(tmp_path.rglob("*unfinished*"))


SILENT = """
    import threading
    import penstock as ps

    def numbers():
        yield {"number": 1}
        threading.Event().wait()

    stream = ps.read_iterable(numbers, schema={"number": int})
    stream.write_json("rows.jsonl").parallelism(1)
    stream.for_each_batch(lambda rows: print("a batch", flush=True))
    print(ps.run("silent").source_rows)
"""


def test_ctrl_c_ends_a_job_whose_input_blocks(tmp_path: Path) -> None:
    process = child(SILENT, tmp_path)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, errors, output) == (0, "", "1\n")
    assert (tmp_path / "rows.jsonl").read_text() == '{"number":1}\n'


def test_an_iterator_that_blocks_holds_up_neither_stop_nor_other_sources() -> None:
    here, there, blocked = threading.Event(), threading.Event(), threading.Event()
    other_rows = 0

    def blocking() -> Iterator[Row]:
        yield {"number": 1}
        blocked.wait()

    def arrived(rows: pa.RecordBatch) -> None:
        here.set()

    def others(rows: pa.RecordBatch) -> None:
        nonlocal other_rows
        other_rows += rows.num_rows
        if other_rows == 1_000:
            there.set()

    job = Job()
    ps.read_iterable(blocking, schema={"number": int}, job=job).for_each_batch(arrived)
    ps.read_iterable([{"number": 2}] * 1_000, schema={"number": int}, job=job).for_each_batch(others)
    handle = job.start("blocked", parallelism=1, batch_rows=10)
    try:
        assert here.wait(LONG_S)
        assert there.wait(LONG_S)
        assert handle.stop().source_rows == 1_001
    finally:
        blocked.set()


STUCK = """
    import threading
    import penstock as ps

    def stuck(rows):
        print("a batch", flush=True)
        threading.Event().wait()

    ps.read_iterable([{"number": 1}], schema={"number": int}).for_each_batch(stuck)
    ps.run("stuck")
"""


def test_a_second_ctrl_c_ends_a_job_that_is_stuck(tmp_path: Path) -> None:
    process = child(STUCK, tmp_path)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.3)
    errors = interrupt_until_it_ends(process)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


HANGING = """
    import ctypes
    import penstock as ps

    def hang(rows):
        print("a batch", flush=True)
        # A call that no signal interrupts: a mutex that this thread holds already.
        mutex, library = (ctypes.c_byte * 64)(), ctypes.CDLL(None)
        library.pthread_mutex_init(mutex, None)
        while True:
            library.pthread_mutex_lock(mutex)

    ps.read_iterable([{"number": 1}], schema={"number": int}).for_each_batch(hang)
    ps.run("hanging")
"""


@pytest.mark.parametrize(
    "first", but_for([signal.SIGINT, signal.SIGTERM], [signal.SIGINT], "the other signal; SIGINT stays")
)
def test_a_second_signal_ends_a_job_that_hangs_in_a_library(tmp_path: Path, first: signal.Signals) -> None:
    process = child(HANGING, tmp_path)
    process.send_signal(first)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.3)
    errors = interrupt_until_it_ends(process)
    assert process.returncode == 130
    assert "ended at once by a second Ctrl-C" in errors


STARTING = """
    import pyarrow as pa
    import penstock as ps
    from penstock.model.errors import RetryableError

    class Absent(ps.Source):
        bounded = False
        schema = pa.schema({"number": pa.int64()})

        def partitions(self, parallelism):
            print("a batch", flush=True)
            while SLOW:
                sum(range(1000))
            raise RetryableError("the broker cannot be reached")

        def open(self, partition, position):
            raise AssertionError

    ps.read(Absent()).name("absent").write_json("out").name("out")
    print(ps.run("starting", checkpoint_dir="checkpoints", start_timeout="1h").source_rows)
"""


@pytest.mark.parametrize(
    "number", but_for([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM], "the other signal; SIGTERM stays")
)
@pytest.mark.parametrize("slow", [False, True])
def test_a_signal_ends_a_job_that_waits_at_its_start(tmp_path: Path, slow: bool, number: signal.Signals) -> None:
    process = child(STARTING.replace("SLOW", str(slow)), tmp_path)
    assert process.stdout is not None
    if not slow:
        assert process.stdout.readline() == "a batch\n", "it tries again"
    process.send_signal(number)
    output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, output.splitlines()[-1]) == (0, "0"), errors
    assert "STOPPED: 'starting' had not begun" in errors
    told = "NOT STARTED YET: 'starting' is tried again for 3600 s in all; the broker cannot be reached"
    assert errors.count(told) == (0 if slow else 1)


class SignalInDestructor(ps.Source):
    """Has SIGTERM delivered while a destructor runs: Python drops what is raised there."""

    bounded = False
    schema = pa.schema({"number": pa.int64()})

    def partitions(self, parallelism: int) -> list[str]:
        class Dying:
            def __del__(self) -> None:
                os.kill(os.getpid(), signal.SIGTERM)

        Dying()
        raise RetryableError("the broker cannot be reached")

    def open(self, partition: str, position: object) -> Any:
        raise AssertionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_destructor_is_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job()
    ps.read(SignalInDestructor(), job=job).name("absent").write_json("out").name("out")
    assert job.run("starting", checkpoint_dir=tmp_path / "checkpoints", start_timeout="30s").source_rows == 0
    assert "STOPPED: 'starting' had not begun" in capsys.readouterr().err


def test_sigterm_is_a_stop_too(tmp_path: Path) -> None:
    process = child(SILENT, tmp_path)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=LONG_S)
    assert (process.returncode, errors, output) == (0, "", "1\n")


def interrupt_until_it_ends(process: subprocess.Popen[str]) -> str:
    """Two signals that a busy machine delivers late count as one: send more of them, but not while one is obeyed."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the process did not end")


def test_ctrl_c_in_this_process_is_as_it_was_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupting: list[Callable[..., Any]] = []

    def interrupt(rows: pa.RecordBatch) -> None:
        if not interrupting:
            interrupting.append(interrupt)
            signal.raise_signal(signal.SIGINT)

    def numbers() -> Iterator[Row]:
        for number in range(1_000_000_000):
            yield {"number": number, "at": noon(number)}

    job = Job()
    ps.read_iterable(numbers, schema={"number": int}, job=job).for_each_batch(interrupt)
    metrics = job.run("interrupted", batch_rows=10)
    assert 0 < metrics.source_rows < 1_000
    assert signal.getsignal(signal.SIGINT) is before
