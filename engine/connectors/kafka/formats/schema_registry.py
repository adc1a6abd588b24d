"""A schema registry: schemas by id or GUID, kept once known, and the registration of what is written.

Confluent's client talks to it, and is loaded with the first question. Called by the Avro and Protobuf formats.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from penstock.engine.connectors.kafka.formats.extras import needed
from penstock.engine.connectors.kafka.formats.registry_settings import RegistrySettings
from penstock.engine.connectors.kafka.formats.wire import SchemaName
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.model.errors import OptionError, RetryableError, SchemaError, UserError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

UNKNOWN_FOR_S = 60
"""How long a schema that the registry does not know is not asked for again."""

_MOST_UNKNOWN = 10_000
_MOST_REFERENCES, _DEEPEST = 100, 16
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403

_Answer = TypeVar("_Answer")


class UnknownSchemaError(ValueError):
    """The registry answers, and does not know the schema."""


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """A schema as the registry has it; ``references`` are the texts of what it refers to, by name, inner ones first."""

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """The id and GUID of a schema that was registered."""

    schema_id: int
    guid: UUID | None


@dataclass(frozen=True, slots=True)
class ReferencedSchema:
    """A reference of one schema to another by a name."""

    name: str
    subject: str
    version: int


class SchemaRegistry:
    """One registry, for any number of threads. A schema that is known stays known, whatever becomes of the registry."""

    def __init__(self, settings: RegistrySettings, clock: Clock | None = None) -> None:
        """Connect to nothing yet.

        Raises:
            OptionError: libraries are missing that the client needs.
        """
        needed("confluent_kafka.schema_registry", "registry", "a schema registry")
        self.settings = settings
        self._clock = clock or SystemClock()
        self._schemas: dict[tuple[SchemaName, str | None], KnownSchema] = {}
        self._unknown: OrderedDict[SchemaName, int] = OrderedDict()
        self._lock = threading.Lock()
        self._client: SchemaRegistryClient | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks and connections are made where they are used; a copy asks for schemas itself.
        return SchemaRegistry, (self.settings,)

    def schema(self, name: SchemaName, form: str | None = None) -> KnownSchema:
        """Return a schema. ``form="serialized"`` asks for Protobuf's as the base64 of a ``FileDescriptorProto``.

        Raises:
            UnknownSchemaError: the registry does not know it; it is not asked again for `UNKNOWN_FOR_S`.
            RetryableError: the registry does not answer, and this schema was not asked for before.
            UserError: the registry refuses to answer.
        """
        cached = self._schemas.get((name, form))
        if cached is not None:
            return cached
        with self._lock:
            self._check_known(name)
            schema = self._fetched(name, form)
            self._schemas[name, form] = schema
            return schema

    def latest(self, subject: str) -> KnownSchema:
        """Return the newest schema of a subject.

        Raises:
            SchemaError: there is none.
            RetryableError: the registry does not answer.
            UserError: the registry refuses to answer.
        """
        with self._lock:
            version = self._ask(f"the newest schema of {subject!r}", lambda: self._open().get_latest_version(subject))
            if version is None:
                raise SchemaError(
                    f"the schema registry at {self.settings.url} has no subject {subject!r}: give schema=..., or "
                    "register the schema"
                )
            return self._with_references(version.schema)

    def register(
        self, subject: str, text: str, kind: str, references: tuple[ReferencedSchema, ...] = ()
    ) -> tuple[RegisteredSchema, int]:
        """Make sure that a subject has a schema, and return its names and its version there.

        Raises:
            SchemaError: the subject does not take it, or does not have it and it may not be registered.
            RetryableError: the registry does not answer.
            UserError: the registry refuses to answer.
        """
        from confluent_kafka.schema_registry import Schema, SchemaReference

        schema = Schema(text, kind, [SchemaReference(one.name, one.subject, one.version) for one in references])
        with self._lock:
            client, what = self._open(), f"the schema of {subject!r}"
            if self.settings.may_register:
                self._ask(what, lambda: client.register_schema_full_response(subject, schema))
            registered = self._ask(what, lambda: client.lookup_schema(subject, schema))
        if registered is None or registered.schema_id is None:
            raise SchemaError(
                f"the schema registry at {self.settings.url} does not have this schema in {subject!r}, and "
                "auto.register.schemas is False: register it first"
            )
        guid = None if registered.guid is None else UUID(registered.guid)
        return RegisteredSchema(registered.schema_id, guid), registered.version or 1

    def _check_known(self, name: SchemaName) -> None:
        since = self._unknown.get(name)
        if since is None:
            return
        if self._clock.monotonic_ns() - since < UNKNOWN_FOR_S * 1_000_000_000:
            raise UnknownSchemaError(self._unknown_sentence(name))
        del self._unknown[name]

    def _fetched(self, name: SchemaName, form: str | None) -> KnownSchema:
        client, what = self._open(), f"schema {name}"
        if isinstance(name, UUID):
            schema = self._ask(what, lambda: client.get_schema_by_guid(str(name), fmt=form))
        else:
            schema = self._ask(what, lambda: client.get_schema(name, fmt=form))
        if schema is None:
            self._unknown[name] = self._clock.monotonic_ns()
            while len(self._unknown) > _MOST_UNKNOWN:
                self._unknown.popitem(last=False)
            raise UnknownSchemaError(self._unknown_sentence(name))
        return self._with_references(schema)

    def _unknown_sentence(self, name: SchemaName) -> str:
        return f"the schema registry at {self.settings.url} does not know schema {name}"

    def _with_references(self, schema: Any) -> KnownSchema:
        texts: dict[str, str] = {}
        self._add_references(schema, texts, _DEEPEST)
        return KnownSchema(schema.schema_str or "", schema.schema_type or "AVRO", tuple(texts.items()))

    def _add_references(self, schema: Any, texts: dict[str, str], deepest: int) -> None:
        for one in schema.references or ():
            if one.name in texts:
                continue
            if not deepest or len(texts) >= _MOST_REFERENCES:
                raise SchemaError(f"the schema {one.subject!r} in the registry refers to too many others")
            what = f"version {one.version} of {one.subject!r}"
            version = self._ask(what, partial(self._open().get_version, one.subject, one.version, deleted=True))
            if version is None or version.schema.schema_str is None:
                raise SchemaError(f"the schema registry at {self.settings.url} does not have {what}, which is used")
            self._add_references(version.schema, texts, deepest - 1)
            texts[one.name] = version.schema.schema_str

    def _open(self) -> SchemaRegistryClient:
        if self._client is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            try:
                self._client = SchemaRegistryClient(self.settings.client())
            except (TypeError, ValueError, OSError) as error:
                raise OptionError(f"registry= does not fit: {error}") from None
        return self._client

    def _ask(self, what: str, question: Callable[[], _Answer]) -> _Answer | None:
        """Return the answer, None if the registry does not know what was asked for."""
        from confluent_kafka.schema_registry import SchemaRegistryError
        from confluent_kafka.schema_registry.error import OAuthTokenError

        at = f"the schema registry at {self.settings.url}"
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code in (_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA):
                return None
            raise _refusal(f"{at} does not give {what}", error.http_status_code, str(error)) from None
        except (OAuthTokenError, OSError, _transport_error()) as error:
            raise RetryableError(
                f"{at} cannot be reached for {what} ({error}); check that it runs and that its address is right"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RetryableError(f"{at} answers for {what} with something that is no schema: {error}") from None


_REFUSALS: Mapping[int, tuple[type[UserError], str]] = {
    401: (UserError, "check its credentials in registry={...}"),
    403: (UserError, "this user needs the right to read it, or to write it"),
    404: (UserError, "check its address, and that it is new enough to know schemas by GUID if they are named so"),
    409: (SchemaError, "the new schema does not go with earlier ones of its subject"),
    422: (SchemaError, "it takes the schema for invalid"),
}


def _refusal(what: str, status: int, answer: str) -> Exception:
    if status >= 500 or status in (408, 429):
        return RetryableError(f"{what} now: {answer}")
    kind, advice = _REFUSALS.get(status, (UserError, "check registry={...}"))
    return kind(f"{what}: {answer}; {advice}")


def _transport_error() -> type[Exception]:
    """Return what the client raises when nobody answers: it uses one of two libraries."""
    try:
        import httpx2 as library
    except ImportError:
        import httpx as library  # type: ignore[import-not-found,no-redef,unused-ignore]
    error: type[Exception] = library.TransportError
    return error
