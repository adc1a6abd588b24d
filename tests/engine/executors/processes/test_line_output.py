"""What task managers print: whole lines, from however many threads and processes."""

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from penstock.engine.executors.processes import line_output
from penstock.engine.executors.processes.line_output import LineOutput, OutputLock, write_lines

ROOT = Path(__file__).resolve().parents[4]

PRINTING = """
import sys
from tests.engine.executors.processes.started import started
with started("tm-0", "tm-1") as each:
    for name in ("tm-0", "tm-1"):
        each.say(name, "print", *(int(argument) for argument in sys.argv[1:]))
    for name in ("tm-0", "tm-1"):
        each.listen(name)
"""


@pytest.fixture
def lock() -> OutputLock:
    return OutputLock(os.memfd_create("lock"))


@pytest.mark.parametrize("length", [10, 9_000, 70_000])
@pytest.mark.parametrize("into", ["pipe", "file"])
def test_lines_of_many_threads_in_two_processes_stay_whole(into: str, length: int, tmp_path: Path) -> None:
    threads, lines = 8, 60
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
    assert len(pids) == 2
    expected = [
        (pid, str(thread), str(line), "x" * length)
        for pid in pids
        for thread in range(threads)
        for line in range(lines)
    ]
    assert printed == Counter(expected)


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


def test_standard_files_keep_encoding_and_name(lock: OutputLock, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="latin-1", errors="replace") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", None)
        (output,) = write_lines(lock)
        assert sys.stderr is None
        assert (sys.stdout.encoding, sys.stdout.errors, sys.stdout.fileno()) == ("latin-1", "replace", writer)
        assert sys.stdout.buffer is output and not sys.stdout.isatty() and sys.stdout.writable()
        print("é", "→", sep=" ")
        assert os.read(reader, 100) == b"\xe9 ?\n"
        monkeypatch.undo()
    os.close(reader)


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
