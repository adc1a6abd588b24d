"""A broker that wants TLS and a login, with a certificate authority made for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.dev.kafka_broker import Listener, LocalBroker
from tests.certificates import make_authority, make_certificate

USER, PASSWORD = "alice", 'correct horse "battery" staple'


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    """A broker whose listeners, PLAINTEXT apart, want TLS, a login of `USER`, or both.

    Who has logged in may do only what an ACL allows, who need not may do everything. ``password`` is a file with the
    user's password.
    """

    broker: LocalBroker
    authority: Path
    password: Path

    def settings(self, protocol: str) -> dict[str, str]:
        """Return librdkafka's settings for a listener."""
        settings = {"bootstrap.servers": self.broker.address(protocol), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.authority)
        if protocol.startswith("SASL"):
            mechanism = "SCRAM-SHA-512" if protocol == "SASL_SSL" else "PLAIN"
            settings |= {"sasl.mechanism": mechanism, "sasl.username": USER}
            settings["sasl.password"] = f"file:{self.password}"
        return settings


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Run a broker with every kind of listener."""
    authority = make_authority(folder / "authority.pem")
    certificate = make_certificate(authority, folder / "broker.pem")
    password = folder / "password"
    password.write_text(PASSWORD)
    doors = [
        Listener("SSL", certificate=certificate),
        Listener("SASL_SSL", certificate=certificate, users={USER: PASSWORD}),
        Listener("SASL_PLAINTEXT", users={USER: PASSWORD}, mechanism="PLAIN"),
    ]
    with LocalBroker(folder / "broker", listeners=doors, authorize=True) as broker:
        yield SecuredBroker(broker, authority.file, password)
