"""A schema registry for tests: Confluent's REST protocol over real sockets, in this process, with outages.

No registry can be had by pip. What is tested is the client's end, through all of HTTP; this is the other one, as far as
Confluent's documentation describes it, and knows no compatibility rules but one that a test sets.
"""

import base64
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorProto


class RegistryServer:
    """Subjects, versions, ids and GUIDs. ``status`` is what every request is answered with while it is not 200."""

    def __init__(self, *, guids: bool = True, serialized: bool = True) -> None:
        self.guids, self.serialized = guids, serialized
        self.status = 200
        self.body: bytes | None = None
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.credentials: str | None = None
        self.frozen = False
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, again at the same port after `stop`."""
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Close every socket: nobody answers."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def guid(self, schema_id: int) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"schema {schema_id}")

    def add(self, subject: str, text: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """Register a schema and return its id, which is the same in every subject."""
        schema = {"schema": text, "schemaType": kind, "references": references or []}
        known = [number for number, other in self.schemas.items() if other == schema]
        schema_id = known[0] if known else len(self.schemas) + 1
        self.schemas[schema_id] = schema
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        """Answer a request: the status and the JSON."""
        form = query.get("format", [""])[0]
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._schema(int(match[1]), form)
        if self.guids and (match := re.fullmatch(r"/schemas/guids/([0-9a-f-]+)", path)):
            found = [number for number in self.schemas if str(self.guid(number)) == match[1]]
            return self._schema(found[0] if found else -1, form)
        if match := re.fullmatch(r"/subjects/([^/]+)/versions/(latest|\d+)", path):
            subject = unquote(match[1])
            versions = self.subjects.get(subject)
            if versions is None:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            version = len(versions) if match[2] == "latest" else int(match[2])
            if not 1 <= version <= len(versions):
                return 404, {"error_code": 40402, "message": f"Version {version} not found."}
            return 200, self._registered(subject, versions[version - 1])
        if method == "POST" and (match := re.fullmatch(r"/subjects/([^/]+)(/versions)?", path)):
            return self._post(unquote(match[1]), body, register=match[2] is not None)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, schema_id: int, form: str) -> tuple[int, Any]:
        if schema_id not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        found = {**self.schemas[schema_id], "id": schema_id, **self._guid(schema_id)}
        if found["schemaType"] == "PROTOBUF" and not (form == "serialized" and self.serialized):
            file = FileDescriptorProto.FromString(base64.b64decode(found["schema"]))
            found["schema"] = f'syntax = "proto3"; // {file.name}'
        return 200, found

    def _post(self, subject: str, body: dict[str, Any], *, register: bool) -> tuple[int, Any]:
        text, kind = body["schema"], body.get("schemaType", "AVRO")
        schema = {"schema": text, "schemaType": kind, "references": body.get("references", [])}
        if register and self.frozen:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier one"}
        if register:
            return 200, {"id": self.add(subject, text, kind, schema["references"])}
        for schema_id in self.subjects.get(subject, []):
            if self.schemas[schema_id] == schema:
                return 200, self._registered(subject, schema_id)
        missing = 40403 if subject in self.subjects else 40401
        return 404, {"error_code": missing, "message": "not found"}

    def _registered(self, subject: str, schema_id: int) -> dict[str, Any]:
        version = self.subjects[subject].index(schema_id) + 1
        known = {"subject": subject, "version": version, "id": schema_id, **self._guid(schema_id)}
        return {**self.schemas[schema_id], **known}

    def _guid(self, schema_id: int) -> dict[str, str]:
        return {"guid": str(self.guid(schema_id))} if self.guids else {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(registry: RegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", {})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._answer("POST", json.loads(self.rfile.read(length)))

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self, method: str, body: dict[str, Any]) -> None:
            parts = urlsplit(self.path)
            registry.requests.append(f"{method} {parts.path}")
            if registry.credentials is not None and self.headers.get("Authorization") != registry.credentials:
                status, told = 401, {"error_code": 401, "message": "Unauthorized"}
            elif registry.body is not None:
                status, told = 200, None
            elif registry.status != 200:
                status, told = registry.status, {"error_code": registry.status, "message": "out of order"}
            else:
                status, told = registry.answer(method, parts.path, parse_qs(parts.query), body)
            content = registry.body if registry.body is not None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


@contextmanager
def registry_server(**options: Any) -> Iterator[RegistryServer]:
    """Run a registry for a block."""
    server = RegistryServer(**options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
