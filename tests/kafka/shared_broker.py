"""One broker for all processes of a test run: the first that needs it starts it, the last that is done stops it."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka.admin import is_ready

READY_S = 60.0
STOP_S = 30.0


@contextmanager
def shared_broker(folder: Path) -> Iterator[str]:
    """Yield the address of the broker of a folder that all processes of the run know.

    Every process that uses it holds a shared lock, which its death releases too; whoever can have the lock alone is
    the last.
    """
    folder.mkdir(exist_ok=True)
    address, own = folder / "address", None
    with (folder / "users.lock").open("w") as users:
        with _alone(folder / "change.lock"):
            if not (address.exists() and is_ready(address.read_text().split()[0], READY_S)):
                own = LocalBroker(folder / "broker").start()
                address.write_text(f"{own.bootstrap} {own.pid}")
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield address.read_text().split()[0]
        finally:
            with _alone(folder / "change.lock"):
                if not _nobody_else(users):
                    if own is not None:
                        own.leave()
                else:
                    if own is not None:
                        own.stop()
                    else:
                        _stop(int(address.read_text().split()[1]))
                    address.unlink()


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _nobody_else(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(process_id: int) -> None:
    try:
        process = psutil.Process(process_id)
        process.terminate()
        until = time.monotonic() + STOP_S
        while process.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > until:
                process.kill()
            time.sleep(0.02)
    except psutil.NoSuchProcess:
        return
