"""Settings of a Kafka cluster: librdkafka's own, passed on as they are, secrets by reference.

Made by the front door (docs/design/kafka.md 7); `clients` turns it into the settings of each client.
"""

from collections.abc import Mapping
from typing import Any

from penstock.engine.connectors.kafka.secret_references import check_reference, is_reference, referenced
from penstock.model.errors import OptionError, UserError

REDACTED = "[redacted]"

_BOOTSTRAP = "bootstrap.servers"
_SECRETS = frozenset({"ssl.key.pem", "sasl.oauthbearer.config", "sasl.oauthbearer.assertion.private.key.pem"})
_SECRET_WORDS = ("pass", "pwd", "secret", "token", "credential", "jaas", "user.info")
_NO_SECRETS = (".location", ".file", ".url", ".id")

_CONSUMER: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_CONSUMER_DEFAULTS: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    # A full local queue sleeps this long before it fetches again: a second by default, a sixth of the rate.
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 32_768,
}
_FETCH_BYTES = 4 << 20
"""Of one answer, which comes whole or not at all: 50 MB, librdkafka's own, never come over a slow link in time."""

_PRODUCER: Mapping[str, Any] = {"enable.idempotence": True, "acks": "all"}
_PRODUCER_DEFAULTS: Mapping[str, Any] = {"retry.backoff.ms": 50, "partitioner": "murmur2_random"}
_OURS = {
    "group.instance.id": "Penstock assigns partitions itself and is no member of a group",
    "group.protocol": "Penstock assigns partitions itself and is no member of a group",
    "transactional.id": "it is made from the names of the job and of the sink",
    "client.id": "it is made from the names of the job and of the operator",
    "error_cb": "Penstock needs it to notice that brokers are gone",
    "logger": "clients log to the logger 'penstock.kafka'",
    "on_commit": "offsets are committed for monitoring only",
}
_SAME = {"all": "-1", "true": "true", "false": "false"}
_CONSUMER_ONLY = frozenset(
    {
        *_CONSUMER,
        *_CONSUMER_DEFAULTS,
        "group.id",
        "fetch.max.bytes",
        "auto.commit.interval.ms",
        "check.crcs",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
_PRODUCER_ONLY = frozenset(
    {
        *_PRODUCER,
        "partitioner",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.send.max.retries",
        "message.timeout.ms",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
    }
)


class KafkaSettings:
    """Settings for the clients of one cluster. Immutable; holds references to secrets, never their values.

    Keys are librdkafka's; a prefix ``kafka.``, as Spark has it, is left out. A value ``env:NAME`` or ``file:PATH`` is
    read from there when a client is made. Passwords and keys must be given so.
    """

    def __init__(self, settings: Mapping[str, Any] | str) -> None:
        """Take a mapping, or only the bootstrap address.

        Raises:
            OptionError: there is no address, a secret stands in the open, or a key contradicts what Penstock needs.
        """
        given = {_BOOTSTRAP: settings} if isinstance(settings, str) else dict(settings)
        self._given = {_plain_key(key): value for key, value in given.items()}
        if "metadata.broker.list" in self._given:
            self._given.setdefault(_BOOTSTRAP, self._given.pop("metadata.broker.list"))
        if not self._given.get(_BOOTSTRAP):
            raise OptionError("kafka= names no broker: give 'HOST:PORT' or {'bootstrap.servers': 'HOST:PORT', ...}")
        for key, value in self._given.items():
            _check(key, value)

    @property
    def bootstrap(self) -> str:
        """The address to begin with, for messages."""
        return str(self._given[_BOOTSTRAP])

    @property
    def group(self) -> str | None:
        """The consumer group that was asked for."""
        group = self._given.get("group.id")
        return None if group is None else str(group)

    @property
    def committed_only(self) -> bool:
        """True if consumers see only what transactions have committed."""
        return self._given.get("isolation.level", "read_committed") == "read_committed"

    def consumer(self, client_id: str, group: str) -> dict[str, Any]:
        """Return the settings of a consumer, secrets resolved; ``group`` unless the user named one.

        Raises:
            UserError: a secret is not where it should be.
        """
        given = self._resolved(_PRODUCER_ONLY)
        largest = str(given.get("message.max.bytes", 0))
        # librdkafka wants room for a message of the largest size.
        fetch = max(_FETCH_BYTES, int(largest) if largest.isdigit() else 0)
        ours = {**_CONSUMER_DEFAULTS, "fetch.max.bytes": fetch, "group.id": group}
        return {**ours, **given, **_CONSUMER, "client.id": client_id}

    def producer(self, client_id: str, transactional_id: str | None = None) -> dict[str, Any]:
        """Return the settings of a producer, secrets resolved.

        Raises:
            UserError: a secret is not where it should be.
        """
        chosen = {**_PRODUCER_DEFAULTS, **self._resolved(_CONSUMER_ONLY), **_PRODUCER, "client.id": client_id}
        return chosen if transactional_id is None else {**chosen, "transactional.id": transactional_id}

    def admin(self, client_id: str) -> dict[str, Any]:
        """Return the settings of an admin client, secrets resolved.

        Raises:
            UserError: a secret is not where it should be.
        """
        return {**self._resolved(_CONSUMER_ONLY | _PRODUCER_ONLY), "client.id": client_id}

    def with_defaults(self, settings: Mapping[str, Any]) -> "KafkaSettings":
        """Return settings with these too where the user said nothing."""
        return KafkaSettings({**settings, **self._given})

    def with_group(self, group: str) -> "KafkaSettings":
        """Return settings of this consumer group, whatever the user named."""
        return KafkaSettings({**self._given, "group.id": group})

    def redacted(self, text: str) -> str:
        """Return a text of somebody else's without the values of secrets, and of whatever else is a reference."""
        for key, value in self._given.items():
            try:
                secret = _value(key, value) if is_secret(key) or is_reference(value) else None
            except UserError:
                continue
            if isinstance(secret, str) and secret and secret != value:
                text = text.replace(secret, REDACTED)
        return text

    def __repr__(self) -> str:
        shown = {key: REDACTED if is_secret(key) else value for key, value in self._given.items()}
        return f"KafkaSettings({shown!r})"

    def _resolved(self, left_out: frozenset[str]) -> dict[str, Any]:
        return {key: _value(key, value) for key, value in self._given.items() if key not in left_out}


def is_secret(key: str) -> bool:
    """Return whether a setting's value must not be seen: also of one that is misspelt, or that only Java knows."""
    if key.endswith(_NO_SECRETS):
        return False
    return key in _SECRETS or any(word in key.lower() for word in _SECRET_WORDS)


def _plain_key(key: Any) -> str:
    if not isinstance(key, str):
        raise OptionError(f"the keys of kafka= are names of librdkafka settings, not {key!r}")
    return key.removeprefix("kafka.")


def _check(key: str, value: Any) -> None:
    if key in _OURS:
        raise OptionError(f"kafka= sets {key!r}, which is Penstock's to set: {_OURS[key]}; leave it out")
    forced = {**_CONSUMER, **_PRODUCER}.get(key)
    if forced is not None and _normal(value) != _normal(forced):
        raise OptionError(
            f"kafka= sets {key!r} to {value!r}, but Penstock needs {_shown(forced)} to lose and repeat nothing; "
            "leave it out"
        )
    if is_secret(key):
        check_reference("kafka=", key, value)


def _normal(value: Any) -> str:
    text = _shown(value)
    return _SAME.get(text, text)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(key: str, value: Any) -> Any:
    return referenced(f"the Kafka setting {key!r}", value)
