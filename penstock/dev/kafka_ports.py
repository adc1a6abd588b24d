"""The ports of a local Kafka broker: chosen so that it can have them again after a restart, and kept in its directory.

Used by `kafka_broker`.
"""

import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import msgspec
import psutil

from penstock.dev.kafka_jars import BrokerError
from penstock.dev.kafka_properties import LOOPBACK

PORTS = range(12_000, 32_000)
"""Where free ports are looked for: below those that systems give to outgoing connections, one of which could
otherwise take the port of a broker while that restarts."""


class BrokerPorts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ports of a broker, by protocol, and the process that has them: 0 if none."""

    listeners: dict[str, int]
    controller: int
    process: int = 0
    created: float = 0.0

    def of_process(self, process: int) -> Self:
        """Return these ports in the hands of a process that runs."""
        return msgspec.structs.replace(self, process=process, created=psutil.Process(process).create_time())

    def in_use(self) -> bool:
        """Return whether that process still runs; ids of processes are used again."""
        try:
            process = psutil.Process(self.process)
            same = abs(process.create_time() - self.created) < 1.0
            return self.process > 0 and same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def read_ports(file: Path) -> BrokerPorts | None:
    """Return what a broker left in its directory; None if there is nothing that can be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=BrokerPorts)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_ports(file: Path, ports: BrokerPorts) -> None:
    """Keep the ports for the next broker of that directory."""
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(ports))
    part.replace(file)


def is_free(port: int) -> bool:
    """Return whether nobody listens at a port of this machine's loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose_ports(
    requested: Mapping[str, int], before: BrokerPorts | None, is_free: Callable[[int], bool] = is_free
) -> BrokerPorts:
    """Return a port for each protocol: the one wanted, or for 0 the one it had before if it is free, or any.

    Raises:
        BrokerError: a port that is wanted is in use.
    """
    taken: set[int] = set()

    def choose(port: int, old: int) -> int:
        if port and not is_free(port):
            raise BrokerError(f"port {port} of {LOOPBACK} is in use; choose another, or 0 for any.")
        if not port:
            port = old if old and old not in taken and is_free(old) else _any(taken, is_free)
        taken.add(port)
        return port

    old = before or BrokerPorts({}, 0)
    listeners = {name: choose(port, old.listeners.get(name, 0)) for name, port in requested.items()}
    return BrokerPorts(listeners, choose(0, old.controller))


def _any(taken: set[int], is_free: Callable[[int], bool]) -> int:
    for _ in range(1_000):
        port = PORTS[secrets.randbelow(len(PORTS))]
        if port not in taken and is_free(port):
            return port
    raise BrokerError(f"no port from {PORTS.start} to {PORTS.stop - 1} of {LOOPBACK} is free.")
