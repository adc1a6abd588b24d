"""A task manager that looks at nothing: only the kernel ends it."""

import signal
import socket

from penstock.engine.executors.managers.host_process import ManagerSettings


def serve(end: socket.socket, settings: ManagerSettings) -> None:
    """Wait for ever."""
    while True:
        signal.pause()
