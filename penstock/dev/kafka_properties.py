"""The ``server.properties`` of a broker for this machine, as text. Written by `kafka_broker`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.model.errors import OptionError

LOOPBACK = "127.0.0.1"
PROTOCOLS = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")

_NAME = re.compile("[A-Z][A-Z0-9_]*")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class Listener:
    """Another door of a broker, beside PLAINTEXT: for tests of security settings, and of connections that fail.

    ``protocol`` is SSL, SASL_SSL, SASL_PLAINTEXT or, with a ``name`` of its own, PLAINTEXT; ``port`` 0 takes any that
    is free. ``users`` log in by ``mechanism``: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; those of SCRAM are made when a
    directory is used first. ``certificate`` is a PEM file with the private key (PKCS #8, not encrypted) and the chain
    of the broker; ``clients`` a PEM file with the authorities of certificates that clients must then show.
    ``name`` is what `LocalBroker.address` knows the door by, its protocol by default; ``advertised`` is the port that
    clients who came by it are sent to, for a proxy that leads here.
    """

    protocol: str
    port: int = 0
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanism: str = "SCRAM-SHA-512"
    certificate: Path | None = None
    clients: Path | None = None
    name: str = ""
    advertised: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        protocols = (*PROTOCOLS, "PLAINTEXT") if self.name else PROTOCOLS
        if self.protocol not in protocols:
            raise OptionError(f"a listener's protocol is one of {', '.join(PROTOCOLS)}, not {self.protocol!r}.")
        if self.mechanism not in _LOGIN_MODULES:
            raise OptionError(f"a listener's mechanism is one of {', '.join(_LOGIN_MODULES)}, not {self.mechanism!r}.")
        if not self.name:
            object.__setattr__(self, "name", self.protocol)
        if self.name in ("PLAINTEXT", "CONTROLLER") or not _NAME.fullmatch(self.name):
            raise OptionError(f"a listener's own name is made of capitals, digits and '_', not {self.name!r}.")
        if self.protocol.endswith("SSL") and self.certificate is None:
            raise OptionError(f"a listener with {self.protocol} needs certificate=, a PEM file.")

    @property
    def scram_users(self) -> Mapping[str, str]:
        """The users that are kept in the cluster itself."""
        return self.users if self.mechanism.startswith("SCRAM") and self.protocol.startswith("SASL") else {}


def server_properties(
    data: Path,
    port: int,
    controller_port: int,
    listeners: Sequence[tuple[Listener, int]] = (),
    *,
    authorize: bool = False,
    more: Mapping[str, str] | None = None,
) -> str:
    """Return the text of ``server.properties``: one node, broker and controller, on loopback only.

    ``listeners`` come with their ports. With ``authorize`` who has logged in may do only what an ACL allows, and who
    came by a listener without logins everything. ``more`` are properties that are added, or win.
    """
    if "," in str(data):
        raise OptionError(f"a broker's directory must have no comma in its name: {data}.")
    doors = [("PLAINTEXT", "PLAINTEXT", port, port)]
    doors += [(door.name, door.protocol, number, door.advertised or number) for door, number in listeners]
    addresses = [f"{name}://{LOOPBACK}:{number}" for name, _, number, _ in doors]
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{controller_port}",
        "listeners": ",".join([*addresses, f"CONTROLLER://{LOOPBACK}:{controller_port}"]),
        "advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{number}" for name, _, _, number in doors),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol, _, _ in doors)]
        ),
        "log.dirs": str(data),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        # Rows with old event times would be deleted at once.
        "log.retention.ms": "-1",
        # A quorum of one need not wait for others, and a broker that was killed not for its own session to run out.
        "controller.quorum.election.timeout.ms": "100",
        "controller.quorum.fetch.timeout.ms": "200",
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "500",
    }
    for listener, _ in listeners:
        properties.update(_door(listener))
    if authorize:
        properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        properties["super.users"] = "User:ANONYMOUS"
    properties.update(more or {})
    return "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in properties.items())


def _door(listener: Listener) -> dict[str, str]:
    prefix = f"listener.name.{listener.name.lower()}."
    properties = {}
    if listener.certificate is not None:
        properties[prefix + "ssl.keystore.type"] = "PEM"
        properties[prefix + "ssl.keystore.location"] = str(listener.certificate)
    if listener.clients is not None:
        properties[prefix + "ssl.client.auth"] = "required"
        properties[prefix + "ssl.truststore.type"] = "PEM"
        properties[prefix + "ssl.truststore.location"] = str(listener.clients)
    if listener.protocol.startswith("SASL"):
        users = {} if listener.scram_users else listener.users
        options = "".join(f' user_{name}="{_quoted(password)}"' for name, password in users.items())
        module = f"{_LOGIN_MODULES[listener.mechanism]} required{options};"
        properties[prefix + "sasl.enabled.mechanisms"] = listener.mechanism
        properties[prefix + listener.mechanism.lower() + ".sasl.jaas.config"] = module
    return properties


def escaped(text: str) -> str:
    """Return a key or a value as Java's Properties read it back: they know Latin-1 and escapes."""
    if "\n" in text or "\r" in text:
        raise OptionError(f"a property of a broker is one line, not {text!r}.")
    units = text.replace("\\", "\\\\").encode("utf-16-be")
    pairs = (units[index : index + 2] for index in range(0, len(units), 2))
    written = "".join(chr(pair[1]) if pair[0] == 0 and 32 <= pair[1] < 127 else f"\\u{pair.hex()}" for pair in pairs)
    return "\\" + written if written.startswith(" ") else written


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
