"""Another process of a run, which only adds files: ``python -m tests.state.checkpoints.uploading``, told by its input.

It reads pickles of files and of the arguments of `join_run` first, then of (epoch, name, content); without a name an
epoch is handed over. It answers each by a pickle.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.checkpoints.results import Traffic
from penstock.state.checkpoints.uploads import CheckpointUploads
from penstock.state.files.durable_files import DurableFiles


class Elsewhere:
    """The process, by its pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def ask(self, question: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(question, self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def add_file(self, epoch: int, name: str, content: bytes) -> FileEntry:
        entry: FileEntry = self.ask((epoch, name, content))
        return entry

    def hand_over(self, epoch: int) -> Traffic:
        traffic: Traffic = self.ask((epoch, None, None))
        return traffic


@contextmanager
def elsewhere(
    files: DurableFiles, run: int, loaded: Mapping[str, int] | None = None, damaged: tuple[str, ...] = ()
) -> Iterator[Elsewhere]:
    """Run the process, which has files of its own made of a pickle of these."""
    command = [sys.executable, "-m", "tests.state.checkpoints.uploading"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        other = Elsewhere(process)
        assert other.ask((files, run, loaded or {}, damaged)) == repr(files)
        yield other
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def main() -> None:
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    files, *run = pickle.load(questions)
    uploads = CheckpointUploads(files)
    uploads.join_run(*run)
    answer: Any = repr(uploads.files)
    while True:
        pickle.dump(answer, answers)
        answers.flush()
        try:
            epoch, name, content = pickle.load(questions)
        except EOFError:
            return
        answer = uploads.hand_over(epoch) if name is None else uploads.add_file(epoch, name, content)


if __name__ == "__main__":
    main()
