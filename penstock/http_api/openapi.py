"""The description of the HTTP API in OpenAPI 3.1, made from the table of operations and the types of its answers."""

from http import HTTPStatus
from typing import Any

import msgspec

from penstock.http_api.access import Scope
from penstock.http_api.answers import ErrorAnswer
from penstock.http_api.event_messages import KINDS
from penstock.http_api.operations import EVENTS, JSON, JSON_PREFIX, OPERATIONS, TEXT, Operation

VERSION = "1"
"""The version of what is below ``/v1/``: a field or an operation may be added to it, none taken away."""

_REFERENCE = "#/components/schemas/{name}"


def describe() -> dict[str, Any]:
    """Return the description, as plain data."""
    types = dict.fromkeys(
        kind for kinds in ((item.answer, item.body) for item in OPERATIONS) for kind in kinds if kind is not None
    )
    types |= dict.fromkeys((*KINDS.values(), ErrorAnswer))
    schemas, components = msgspec.json.schema_components(list(types), ref_template=_REFERENCE)
    references = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, references)
    described = {
        "openapi": "3.1.0",
        "info": {
            "title": "A running Penstock job",
            "version": VERSION,
            "description": "Each operation names the scope of the token that it needs: health none, read the "
            "metrics_token if there is one, act the action_token.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    # Defaults are values of Python until they were written.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(described))
    return plain


def _described(operation: Operation, references: dict[type, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation_id(operation),
        "summary": operation.summary,
        "x-scope": operation.scope.name.lower(),
        "security": _security(operation.scope),
        "responses": {
            **{str(status.value): _answer(status, _content(operation, references)) for status in operation.statuses},
            **{str(status.value): _answer(status, _error(operation, references)) for status in _errors(operation)},
        },
    }
    if operation.parameters:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}
            for name, text in operation.parameters.items()
        ]
    if operation.media == EVENTS:
        described["parameters"] = [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "The id of the last event that was received: begin behind it. 0: with all that is kept.",
                "schema": {"type": "string"},
            }
        ]
        described["x-events"] = {name: references[kind] for name, kind in KINDS.items()}
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": references[operation.body]}}}
    return described


def operation_id(operation: Operation) -> str:
    """Return the name of an operation in the description, such as ``post_v1_stop``."""
    words = [word.strip("{}").partition(".")[0] for word in operation.path.split("/") if word]
    return "_".join([operation.method.lower(), *(words or ["root"])])


def _security(scope: Scope) -> list[dict[str, list[str]]]:
    match scope:
        case Scope.HEALTH:
            return []
        case Scope.READ:
            return [{"token": []}, {}]
        case Scope.ACT:
            return [{"token": []}]


def _errors(operation: Operation) -> list[HTTPStatus]:
    """Return the statuses of an operation's errors."""
    always = [HTTPStatus.FORBIDDEN]
    if operation.scope is not Scope.HEALTH:
        always.append(HTTPStatus.UNAUTHORIZED)
    return sorted({*always, *operation.refusals})


def _answer(status: HTTPStatus, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": status.phrase, "content": content}


def _content(operation: Operation, references: dict[type, Any]) -> dict[str, Any]:
    if operation.answer is not None:
        return {JSON: {"schema": references[operation.answer]}}
    return {operation.media: {"schema": {"type": "object" if operation.media == JSON else "string"}}}


def _error(operation: Operation, references: dict[type, Any]) -> dict[str, Any]:
    if operation.path.startswith(JSON_PREFIX):
        return {JSON: {"schema": references[ErrorAnswer]}}
    return {TEXT: {"schema": {"type": "string"}}}
