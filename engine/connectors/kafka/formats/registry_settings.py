"""Settings of a schema registry: those of Confluent's client as they are, secrets by reference."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock.engine.connectors.kafka.secret_references import check_reference, referenced
from penstock.model.errors import OptionError

SERIALIZERS = ("prefix", "header")

_SECRETS = frozenset(
    {"basic.auth.user.info", "ssl.key.password", "bearer.auth.token", "bearer.auth.client.secret", "bearer.auth.custom"}
)
_REGISTER, _SERIALIZER = "auto.register.schemas", "schema.id.serializer"
# A worker waits for the answer: after a short time it is told to come again, and others get their turn.
_DEFAULTS: Mapping[str, Any] = {"timeout": 5, "max.retries": 1, "retries.wait.ms": 100}


class RegistrySettings:
    """Settings of ``SchemaRegistryClient``, ``url`` above all, and two of its serialisers'. Immutable.

    ``auto.register.schemas`` (True): what is written may be registered, otherwise it must be there.
    ``schema.id.serializer``: ``prefix`` (an id before the message) or ``header`` (a GUID in a header).
    """

    def __init__(self, settings: Mapping[str, Any] | str) -> None:
        """Take a mapping, or only the URL.

        Raises:
            OptionError: there is no URL, a secret stands in the open, or a value is impossible.
        """
        given: dict[str, Any] = {"url": settings} if isinstance(settings, str) else dict(settings)
        url = given.get("url")
        if not isinstance(url, str) or not url:
            raise OptionError("registry= has no address: give 'http://HOST:PORT' or {'url': 'http://HOST:PORT', ...}")
        for key, value in given.items():
            if key in _SECRETS:
                check_reference("registry=", key, value)
        if any(urlsplit(part).password for part in url.split(",")):
            raise OptionError("registry= has a password in its URL; give 'basic.auth.user.info' as 'env:NAME' instead")
        self.may_register: bool = given.pop(_REGISTER, True)
        self.serializer: str = given.pop(_SERIALIZER, SERIALIZERS[0])
        if not isinstance(self.may_register, bool):
            raise OptionError(f"{_REGISTER} must be True or False, not {self.may_register!r}")
        if self.serializer not in SERIALIZERS:
            raise OptionError(f"{_SERIALIZER} must be one of {', '.join(SERIALIZERS)}, not {self.serializer!r}")
        self.url: str = url
        self._given = given

    def client(self) -> dict[str, Any]:
        """Return the client's settings, secrets resolved.

        Raises:
            UserError: a secret is not where it should be.
        """
        given = {key: referenced(f"the registry's setting {key!r}", value) for key, value in self._given.items()}
        return {**_DEFAULTS, **given}

    def __repr__(self) -> str:
        return f"RegistrySettings({self.url!r})"
