"""A witness says how long its process has used a core, also while that holds the interpreter lock."""

import socket
import subprocess
import sys
from concurrent.futures import Future

from penstock.engine.executors.ray.cpu_witness import CpuReading
from tests.contracts.executors.metered import until

# A regular expression that backtracks for hours lets no other thread of its process run.
BUSY = """
import re, socket, sys
from penstock.engine.executors.ray.cpu_witness import begin_witness
begin_witness(socket.socket(fileno=int(sys.argv[1])))
re.match(r"(a+)+$", "a" * 64 + "b")
"""


def test_a_process_that_holds_the_interpreter_lock_is_seen_to_work_and_its_witness_ends_with_it() -> None:
    here, there = socket.socketpair()
    with (
        here,
        there,
        subprocess.Popen([sys.executable, "-c", BUSY, str(there.fileno())], pass_fds=(there.fileno(),)) as busy,
    ):
        there.close()
        coming: Future[socket.socket] = Future()
        reading = CpuReading(coming)
        assert reading.read_ns() is None
        coming.set_result(here)
        until(lambda: reading.read_ns() is not None)
        first = reading.read_ns()
        assert first is not None
        until(lambda: (reading.read_ns() or 0) > first)
        busy.kill()
        busy.wait()
        # The other end is closed once the witness has ended.
        here.setblocking(True)
        here.settimeout(60)
        while here.recv(64):
            pass


def test_a_socket_that_comes_too_late_or_not_at_all_is_let_go() -> None:
    here, there = socket.socketpair()
    coming: Future[socket.socket] = Future()
    never: Future[socket.socket] = Future()
    for future in (coming, never):
        CpuReading(future).close()
    coming.set_result(here)
    never.cancel()
    there.settimeout(60)
    assert there.recv(1) == b""
    there.close()
    assert CpuReading(never).read_ns() is None
