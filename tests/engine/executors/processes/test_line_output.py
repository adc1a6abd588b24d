"""What task managers print: whole lines, from however many threads and processes."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TextIO

import pytest

from penstock.engine.executors.processes import line_output
from penstock.engine.executors.processes.line_output import LineOutput, OutputLock, StandardLines

ROOT = Path(__file__).resolve().parents[4]

PRINTING = """
import os, sys
from tests.engine.executors.processes.started import started
with started("tm-0", "tm-1") as each:
    for name in ("tm-0", "tm-1"):
        each.say(name, "print", *(int(argument) for argument in sys.argv[1:]))
    threads, lines, length = (int(argument) for argument in sys.argv[1:])
    for thread in range(threads):
        for line in range(lines):
            print(os.getpid(), thread, line, "x" * min(length, 1_000))
    for name in ("tm-0", "tm-1"):
        each.listen(name)
"""


@pytest.fixture
def lock() -> OutputLock:
    return OutputLock(os.memfd_create("lock"))


@pytest.mark.parametrize(
    ("into", "unbuffered", "length"),
    [("pipe", "", 10), ("pipe", "", 9_000), ("pipe", "1", 10), ("pipe", "1", 70_000), ("file", "", 9_000)],
)
def test_lines_of_many_threads_in_three_processes_stay_whole(
    into: str, unbuffered: str, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, lines = 8, 60
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    command = [sys.executable, "-c", PRINTING, str(threads), str(lines), str(length)]
    if into == "file":
        with (tmp_path / "out").open("wb") as file:
            subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=True)
        text = (tmp_path / "out").read_text()
    else:
        ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, text=True)
        text = ran.stdout
    printed = Counter(tuple(line.split(" ")) for line in text.splitlines())
    pids = {words[0] for words in printed}
    assert len(pids) == 3
    numbers = Counter((str(thread), str(line)) for thread in range(threads) for line in range(lines))
    for pid in pids:
        assert Counter(words[1:3] for words in printed.elements() if words[0] == pid) == numbers
    assert {len(words) for words in printed} == {4}
    assert {words[3] for words in printed} <= {"x" * length, "x" * 1_000}


def test_what_was_begun_comes_with_the_end_of_the_process() -> None:
    code = (
        "from tests.engine.executors.processes.started import started\n"
        "with started('tm-0') as each:\n"
        "    each.ask('tm-0', 'print begun', 'no line')\n"
        "    each.say('tm-0', 'leave')\n"
        "    each.launcher.ended('tm-0', 60)\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT) == b"no line"


def test_a_line_is_one_write_and_is_held_back_until_it_ends(lock: OutputLock, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    monkeypatch.setattr(lock, "write", lambda descriptor, data: writes.append(data))
    output = LineOutput("<stdout>", 1, lock)
    assert output.write(b"one ") == 4 and not writes
    output.write(b"line\nand\nmore")
    assert writes == [b"one line\nand\n"]
    output.flush()
    output.flush()
    assert writes[1:] == [b"more"]
    other = threading.Thread(target=output.write, args=(b"of another",))
    other.start()
    other.join()
    output.write(b"mine\n")
    output.drain()
    assert writes[2:] == [b"mine\n", b"of another"]


def test_a_line_without_end_is_not_gathered_for_ever(lock: OutputLock, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    monkeypatch.setattr(line_output, "LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr(lock, "write", lambda descriptor, data: writes.append(len(data)))
    output = LineOutput("<stdout>", 1, lock)
    for size in (6, 6, 3, 25):
        output.write(b"x" * size)
    assert writes == [12, 28]


def test_whoever_does_not_read_makes_a_writer_wait_also_where_writes_do_not(lock: OutputLock) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    data = bytes(range(256)) * 4_096
    writing = threading.Thread(target=lock.write, args=(writer, data))
    writing.start()
    received = b""
    while len(received) < len(data):
        received += os.read(reader, 1 << 16)
    writing.join()
    assert received == data
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        lock.write(writer, b"to nobody")
    os.close(writer)


@contextmanager
def own_output() -> Iterator[tuple[int, TextIO]]:
    """Have a pipe as standard output, as a process has, and no standard error."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="latin-1", errors="replace") as file, pytest.MonkeyPatch.context() as patch:
        for name, value in (("stdout", file), ("__stdout__", file), ("stderr", None), ("__stderr__", None)):
            patch.setattr(sys, name, value)
        yield reader, file
    os.close(reader)


def test_standard_files_keep_what_they_are(lock: OutputLock) -> None:
    with own_output() as (reader, file):
        print("before", end=" ")
        lines = StandardLines(lock)
        assert sys.stderr is None
        assert (sys.stdout.encoding, sys.stdout.errors, sys.stdout.fileno()) == ("latin-1", "replace", file.fileno())
        assert not sys.stdout.isatty() and sys.stdout.writable()
        print("é", "→", sep=" ")
        assert os.read(reader, 100) == b"before \xe9 ?\n"
        kept = sys.stdout
        print("begun", end="")
        lines.close()
        assert sys.stdout is file and os.read(reader, 100) == b"begun"
        lock.close()
        lock.close()
        print("by whoever kept it", file=kept)
        assert os.read(reader, 100) == b"by whoever kept it\n"


def test_what_stands_in_for_a_standard_file_stays(lock: OutputLock) -> None:
    with own_output():
        with redirect_stdout(StringIO()) as other:
            lines = StandardLines(lock)
            assert sys.stdout is other
            lines.close()
            assert sys.stdout is other
        lines = StandardLines(lock)
        with redirect_stdout(StringIO()) as other:
            lines.close()
            assert sys.stdout is other


FORKING = """
import os, select, threading
from penstock.engine.executors.processes.line_output import OutputLock
lock = OutputLock(os.memfd_create("lock"))
reader, writer = os.pipe()
holder = threading.Thread(target=lock.write, args=(writer, bytes(1 << 20)))
holder.start()
while select.select([], [writer], [], 0)[1]:
    pass
forked = os.fork()
if not forked:
    lock.write(1, b"forked\\n")
    os._exit(0)
received = 0
while received < 1 << 20:
    received += len(os.read(reader, 1 << 16))
holder.join()
os.waitpid(forked, 0)
"""


def test_a_process_that_is_forked_while_a_thread_prints_can_print() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKING], cwd=ROOT, stdout=subprocess.PIPE, timeout=60, check=True)
    assert ran.stdout == b"forked\n"
