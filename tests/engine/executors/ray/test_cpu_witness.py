"""A witness says how long its process has used a core, also while that holds the interpreter lock."""

import socket
import subprocess
import sys
from concurrent.futures import Future

import pytest

from penstock.engine.core.clock import SystemClock
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.cpu_witness import CpuReading, witness_name
from penstock.engine.transport.tls import TlsFiles
from tests.contracts.executors.metered import until
from tests.engine.transport.linked_pairs import CERTIFICATES, tls_here

TOKEN = bytes(range(32))
FILES = TlsFiles(CERTIFICATES / "own.pem", CERTIFICATES / "own.pem", CERTIFICATES / "authority.pem")

# A regular expression that backtracks for hours lets no other thread of its process run.
BUSY = """
import re, sys
from penstock.engine.executors.ray.cpu_witness import WitnessSettings, begin_witness
address, token, *paths = sys.argv[1:]
begin_witness(WitnessSettings(address, token, "tm-0 cpu", 3, tuple(paths) or None))
re.match(r"(a+)+$", "a" * 64 + "b")
"""


@pytest.mark.parametrize("files", [None, FILES], ids=["plain", "tls"])
def test_a_process_that_holds_the_interpreter_lock_is_seen_to_work_and_its_witness_ends_with_it(
    files: TlsFiles | None,
) -> None:
    tls = None if files is None else tls_here()
    listener = ControlListener(TOKEN, 3, "127.0.0.1", SystemClock(), tls)
    coming = listener.expect(witness_name("tm-0"))
    reading = CpuReading(coming)
    assert reading.read_ns() is None
    paths = () if files is None else files.paths()
    command = [sys.executable, "-c", BUSY, listener.address, TOKEN.hex(), *paths]
    with subprocess.Popen(command) as busy:
        until(lambda: reading.read_ns() is not None)
        first = reading.read_ns()
        assert first is not None
        until(lambda: (reading.read_ns() or 0) > first)
        busy.kill()
        busy.wait()
    # The other end is closed once the witness has ended.
    end = coming.result()
    end.setblocking(True)
    end.settimeout(60)
    while end.recv(64):
        pass
    end.close()
    listener.close()


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
