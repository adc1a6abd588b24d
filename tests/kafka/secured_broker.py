"""A broker that wants TLS and a login, with a certificate authority made for it."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.dev.kafka_broker import Listener, LocalBroker

USER, PASSWORD = "alice", 'correct horse "battery" staple'


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; ``file`` is its own, in PEM."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    file: Path


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


def make_authority(file: Path) -> Authority:
    """Make an authority that nobody else trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of a test")])
    certificate = (
        _certificate(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(key, certificate, file)


def make_certificate(authority: Authority, file: Path) -> Path:
    """Write key and certificate of a broker on this machine into one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _certificate(subject, authority.certificate.subject, key)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = [certificate, authority.certificate]
    file.write_bytes(private + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain))
    file.chmod(0o600)
    return file


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
    )
