"""Starts ``penstock`` processes in milliseconds: one process imports everything once and forks for each command.

A forked child is as real as any for ``kill -9``; only the second or two of imports and kernels is saved, so that a
thousand kills fit into minutes. The module itself is the server when run with ``-m``.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.chaos.child import Child
from penstock.model.errors import FatalError

CHECKOUT = str(Path(__file__).resolve().parents[2])


class ForkServer:
    """Starts children one after the other: wait for one before the next. Use as a context manager."""

    def __init__(self, warm_up: Path | None = None, arguments: Sequence[str] = ()) -> None:
        """Start the server; it runs the pipeline in the file ``warm_up`` once, so that children find kernels loaded."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-fork-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [CHECKOUT, os.environ.get("PYTHONPATH")]))},
        )
        self._children = 0
        if warm_up is not None:
            into = str(Path(self._folder.name) / "warm-up")
            output = Path(self._folder.name) / "warm-up.out"
            warm = ["run", str(warm_up), "--json", f"--sinks-into={into}", "--", *arguments]
            self._ask({"arguments": warm, "stdout": str(output)})
            if self._answer() != 0:
                raise FatalError(f"the pipeline {warm_up} fails undisturbed")

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], stdout: Path) -> Child:
        """Start ``penstock`` with arguments; a `penstock.chaos.child.Start`."""
        self._children += 1
        pipe = Path(self._folder.name) / f"stderr-{self._children}"
        os.mkfifo(pipe)
        self._ask(
            {
                "arguments": list(arguments),
                "environment": dict(environment),
                "stdout": str(stdout),
                "stderr": str(pipe),
            }
        )
        pid = self._answer()
        stderr = pipe.open("rb")
        pipe.unlink()
        return Child(pid, stderr, self._answer_once())

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise FatalError("the fork server has ended")
        return int(line)

    def _answer_once(self) -> "_Status":
        return _Status(self)


class _Status:
    """Reads how a child ended, once."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._code: int | None = None

    def __call__(self) -> int:
        if self._code is None:
            self._code = self._server._answer()
        return self._code


def serve() -> None:
    """Answer each request on stdin with the child's process id, and with how it ended when it has."""
    import penstock.chaos.trials
    import penstock.commands.loading
    import penstock.commands.run_start  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    pid = 0
    for line in sys.stdin:
        if pid:
            os.waitpid(pid, 0)
        pid = 0
        request = json.loads(line)
        if "stderr" not in request:
            _run_here(request)
            print(0, file=answers, flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _become(request)
        print(pid, file=answers, flush=True)
        # Not reaped before the next request: until then nobody else can get its process id, and be killed by it.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        print(code, file=answers, flush=True)


def _run_here(request: dict[str, object]) -> None:
    """Load what the pipeline needs; nothing of it goes on afterwards."""
    _redirect(str(request["stdout"]), 1)
    _command(request)


def _become(request: dict[str, object]) -> None:
    """Be the ``penstock`` command from here on, and never return."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        environment = request["environment"]
        assert isinstance(environment, dict)
        os.environ.update(environment)
        _redirect(str(request["stdout"]), 1)
        _redirect(str(request["stderr"]), 2)
        code = _command(request)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _command(request: dict[str, object]) -> int:
    from penstock.commands.cli import main

    arguments = request["arguments"]
    assert isinstance(arguments, list)
    try:
        main([str(item) for item in arguments])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _redirect(path: str, descriptor: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, descriptor)
    os.close(file)
    # A new object: the old one may believe that it can seek.
    text = os.fdopen(descriptor, "w", buffering=1, closefd=False)
    if descriptor == 1:
        sys.stdout = text
    else:
        sys.stderr = text


if __name__ == "__main__":
    serve()
