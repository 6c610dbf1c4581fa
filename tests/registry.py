"""A registry for tests, with the part of its interface that is used, and the encoding of Avro."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any


class Registry:
    """What a registry has, and what it was asked.

    Attributes:
        schemas: The answer for each schema id.
        subjects: The answer for `<subject>/<version>`.
        asked: Paths, in their order.
        authorization: The headers that came with them.
        broken: The status and body of every answer; None where it works.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, Mapping[str, Any]] = {}
        self.subjects: dict[str, Mapping[str, Any]] = {}
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        self.broken: tuple[int, str] | None = None
        self.location = ""
        self.url = ""

    def answer(self, path: str) -> tuple[int, str]:
        if self.broken:
            return self.broken
        _, kind, *rest = path.split("/")
        if kind == "schemas":
            found, code = self.schemas.get(int(rest[1])), 40403
        else:
            found, code = self.subjects.get(f"{rest[0]}/{rest[2]}"), 40401
        if found is None:
            return 404, json.dumps({"error_code": code, "message": "not found"})
        return 200, json.dumps(found)


@contextmanager
def running() -> Iterator[Registry]:
    """A registry on a free port."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.authorization.append(self.headers["Authorization"])
            status, body = registry.answer(self.path)
            self.send_response(status)
            if registry.location:
                self.send_header("Location", registry.location)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def framed(number: int, content: bytes) -> bytes:
    """A message with the header of a registry."""
    return struct.pack(">bI", 0, number) + content


def varint(value: int) -> bytes:
    """A number as Avro and Protobuf write those that can be negative."""
    rest = (value << 1) ^ (value >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def avro(schema: Any, value: Any, known: dict[str, Any] | None = None) -> bytes:
    """A value in Avro's encoding. In a union the first branch that is not null has all values."""
    known = {} if known is None else known
    if isinstance(schema, list):
        branch = next(
            number for number, one in enumerate(schema) if (one == "null") == (value is None)
        )
        # Later branches can name a type of an earlier one.
        for one in schema[:branch]:
            remember(one, known)
        return varint(branch) + avro(schema[branch], value, known)
    if isinstance(schema, str) and schema in known:
        schema = known[schema]
    kind = schema if isinstance(schema, str) else schema["type"]
    remember(schema, known)
    if kind == "record":
        return b"".join(avro(one["type"], value[one["name"]], known) for one in schema["fields"])
    if kind == "array":
        items = b"".join(avro(schema["items"], one, known) for one in value)
        return (varint(len(value)) + items if value else b"") + b"\x00"
    if kind == "enum":
        return varint(schema["symbols"].index(value))
    if kind in ("string", "bytes"):
        content = value.encode() if isinstance(value, str) else value
        return varint(len(content)) + content
    if kind in ("int", "long"):
        return varint(value)
    if kind == "boolean":
        return bytes([value])
    return {
        "null": lambda: b"",
        "fixed": lambda: bytes(value),
        "float": lambda: struct.pack("<f", value),
        "double": lambda: struct.pack("<d", value),
    }[kind]()


def remember(schema: Any, known: dict[str, Any]) -> None:
    """Notes the types that have names, with all in them."""
    if isinstance(schema, dict):
        if "name" in schema:
            known[schema["name"]] = schema
        for field in schema.get("fields", []):
            for one in field["type"] if isinstance(field["type"], list) else [field["type"]]:
                remember(one, known)
