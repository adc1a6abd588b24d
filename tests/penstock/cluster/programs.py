"""Programs whose jobs run on Ray with a head actor: started as a user does, asked after, and ended with their tests."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.cluster.heads import Head, find_head, heads
from tests.contracts.executors.metered import until

ROWS, HALF = 400, 200

PROGRAM = f"""
import os
import sys
from pathlib import Path
import pyarrow as pa
import penstock as ps
from words import WORD

here = Path(__file__).resolve().parent

def numbers():
    with (here / "begun").open("a") as file:
        print(os.getpid(), file=file)
    for number in range({ROWS}):
        while number == {HALF} and not (here / "go").exists():
            yield None
        yield {{"number": number, "word": WORD}}

stream = ps.read_iterable(numbers, schema=pa.schema([("number", pa.int64()), ("word", pa.string())])).name("numbers")
stream.write_json(here / "out").name("out")
ps.run(**dict(item.split("=") for item in sys.argv[1:]))
"""


@dataclass
class Program:
    """A program that reads half of its rows, and the others once it may."""

    folder: Path
    name: str
    address: str

    def start(self, *more: str, checkpoints: bool = True) -> subprocess.Popen[str]:
        """Begin to run it, as a user does, with ``more`` options."""
        options = ["--executor", "ray", "--task-managers", "1", "--address", self.address, "--name", self.name]
        own = [f"checkpoint_dir={self.folder / 'checkpoints'}", "checkpoint_interval=200ms"] if checkpoints else []
        return self.penstock("run", *options, *more, str(self.folder / "program.py"), *own)

    def penstock(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a command."""
        command = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def await_half(self) -> Head:
        """Wait until half of the rows are read, and written by a checkpoint if there are any; return the head."""
        until(lambda: any(head.job == self.name for head in heads()))
        head = find_head(self.name)
        until(lambda: head.report().metrics.source_rows == HALF)
        return head

    def await_committed(self) -> None:
        """Wait until what was read is in the output for good."""
        until(lambda: self.numbers() == list(range(HALF)))

    def go(self) -> None:
        """Let it read the rest."""
        (self.folder / "go").touch()

    def numbers(self) -> list[int]:
        """Return what is in its output, in order."""
        files = (self.folder / "out").glob("*.jsonl")
        return sorted(json.loads(line)["number"] for file in files for line in file.read_text().splitlines())


@contextmanager
def written_program(folder: Path, name: str, address: str) -> Iterator[Program]:
    """Return a program in a folder whose job ends with the block."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "words.py").write_text("WORD = 'word'\n")
    yield Program(folder, name, address)
    for head in heads():
        if head.job == name:
            head.kill()


def ended(driver: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a driver; return its exit code and what it has printed."""
    out, err = driver.communicate(timeout=120)
    return driver.returncode, out, err
