"""Raises what functions of a file raise, here or in another process: ``raising.py FILE DIRECTORY FUNCTION...``."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from penstock.engine.executors.managers.failures import Failure, error_of, failure_of

PLACE = "task manager 'tm-1'"


def raised_here(file: Path, function: str, directory: Path) -> BaseException:
    """Return the error that a function of a file raises when it is called with a directory."""
    spec = importlib.util.spec_from_file_location("users_file", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        getattr(module, function)(directory)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def raised_elsewhere(file: Path, directory: Path, functions: Sequence[str]) -> dict[str, BaseException]:
    """Return the errors that stand for those that the functions raise in another process."""
    command = [sys.executable, "-m", "tests.penstock.commands.raising", str(file), str(directory), *functions]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300)
    failures = msgspec.msgpack.decode(ran.stdout, type=dict[str, Failure])
    return {name: error_of(failure, PLACE) for name, failure in failures.items()}


if __name__ == "__main__":
    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    raised = {name: failure_of(raised_here(path, name, folder)) for name in sys.argv[3:]}
    sys.stdout.buffer.write(msgspec.msgpack.encode(raised))
