"""Where schemas come from: options, settings, a registry over HTTP, a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbt_spark_cdc.messages.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    Registry,
    Schema,
    Schemas,
    read_registry,
    registry_options,
)
from dbt_spark_cdc.topics.config import read_settings
from tests.registry import Registry as Server
from tests.registry import running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as registry:
        yield registry


class Session:
    """The part of a Spark session that has the settings of the profile."""

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.getAll = {f"spark.cdc.registry.{name}": value for name, value in settings.items()}


def test_options(tmp_path: Path) -> None:
    assert read_registry(None) == (None, [])
    both = {"url": "https://r.example.com/sub", "folder": str(tmp_path), "columns": ["value"]}
    assert read_registry(both | {"connection": "other"}) == (
        Registry("https://r.example.com/sub", str(tmp_path), ("value",), "other"),
        [],
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("https://u:secret@r.example.com", r"registry='https://***@r.example.com': write a map"),
        ({}, "write the `url` of a registry, or a `folder`"),
        ({"url": "r.example.com:8081"}, "write one address, such as"),
        ({"url": "ftp://r.example.com"}, "write one address, such as"),
        ({"url": "https://u:secret@r.example.com"}, "the url has a password"),
        ({"url": "https://r", "password": "secret"}, "it has no option 'password'"),
        ({"folder": "no/such/folder"}, "the folder 'no/such/folder' does not exist"),
        ({"url": "https://r", "columns": ["headers"]}, "columns=['headers']: write a list"),
        ({"url": "https://r", "columns": []}, "columns=[]: write a list"),
        ({"url": "https://r", "connection": "a.b"}, "connection='a.b': write a name"),
    ],
)
def test_wrong_options(given: Any, said: str) -> None:
    registry, [problem] = read_registry(given)
    assert registry is None
    assert said in problem
    assert "secret" not in problem


def test_all_that_is_wrong_is_reported_at_once() -> None:
    _, problems = read_settings(
        "[", "raw.messages", registry={"url": 1, "columns": "value", "x": 1}
    )
    assert len(problems) == 4
    _, [problem] = read_settings(
        ["a"], "raw.messages", registry={"url": "https://r", "connection": "kafka"}
    )
    assert "give them names of their own" in problem


def test_settings_of_the_profile(tmp_path: Path) -> None:
    assert registry_options(Session(user="me", password="x"), "registry") == (
        {"user": "me", "password": "x"},
        [],
    )
    for settings, said in [
        ({"user": "me"}, "needs both"),
        ({"token": "t", "user": "me", "password": "x"}, "leave one of them"),
        ({"basic.auth": "secret"}, "spark.cdc.registry.basic.auth, which a registry does not know"),
        ({"ca_file": str(tmp_path / "ca.pem")}, "there is no such file"),
    ]:
        _, [problem] = registry_options(Session(**settings), "registry")
        assert said in problem
        assert "secret" not in problem


def test_a_schema_is_asked_for_once(server: Server) -> None:
    server.schemas[7] = {"schema": '"string"'}
    server.schemas[8] = {"schema": "{}", "schemaType": "JSON"}
    schemas = Schemas(Registry(f"{server.url}/"), {"user": "me", "password": "x"})
    assert [schemas.get(7), schemas.get(7)] == [Schema(AVRO, '"string"', {})] * 2
    assert schemas.get(8) == Schema(JSON, "{}", {})
    assert [schemas.get(9), schemas.get(9)] == [None, None]
    assert server.asked == ["/schemas/ids/7", "/schemas/ids/8", "/schemas/ids/9"]
    assert set(server.authorization) == {"Basic bWU6eA=="}
    Schemas(Registry(server.url), {"token": "abcd"}).get(7)
    assert server.authorization[-1] == "Bearer abcd"


def test_references_are_followed(server: Server) -> None:
    def needs(name: str, subject: str) -> list[dict[str, Any]]:
        return [{"name": name, "subject": subject, "version": 2}]

    server.schemas[1] = {
        "schema": "A",
        "schemaType": "PROTOBUF",
        "references": needs("b.proto", "b/c"),
    }
    server.subjects["b%2Fc/2"] = {"schema": "B", "references": needs("d.proto", "d")}
    schemas = Schemas(Registry(server.url), {})
    assert schemas.get(1) is None
    server.subjects["d/2"] = {"schema": "D", "references": needs("b.proto", "b/c")}
    assert Schemas(Registry(server.url), {}).get(1) == Schema(
        PROTOBUF, "A", {"b.proto": "B", "d.proto": "D"}
    )


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, "<html>", "it answers 404"),
        (404, json.dumps({"error_code": 404}), "it answers 404"),
        (401, json.dumps({"error_code": 40101}), "it answers 401"),
        (500, "{}", "it answers 500"),
        (200, "<html>", "Expecting value"),
        (200, "[]", "the answer is not a schema"),
    ],
)
def test_no_other_answer_says_that_a_schema_is_unknown(
    server: Server, status: int, body: str, said: str
) -> None:
    server.broken = status, body
    with pytest.raises(RuntimeError, match="could not be asked for schema 7") as caught:
        Schemas(Registry(server.url), {}).get(7)
    assert said in str(caught.value)


def test_the_password_goes_to_no_other_host(server: Server) -> None:
    with running() as other:
        server.broken, server.location = (302, ""), f"{other.url}/schemas/ids/7"
        with pytest.raises(RuntimeError, match="it answers 302"):
            Schemas(Registry(server.url), {"token": "abcd"}).get(7)
        assert other.asked == []


def test_a_registry_that_is_away() -> None:
    with pytest.raises(RuntimeError, match=r"at http://127.0.0.1:9 could not be asked .*refused"):
        Schemas(Registry("http://127.0.0.1:9"), {}).get(7)


def test_a_folder_is_asked_first(server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for name, text in {
        "1.avsc": '"long"',
        "2.proto": "A",
        "shop/b.proto": "B",
        "3.json": "{}",
        "4.desc": "D",
    }.items():
        (tmp_path / name).write_text(text)
    server.schemas[5] = {"schema": '"int"'}
    schemas = Schemas(Registry(server.url, str(tmp_path)), {})
    assert [schemas.get(number) for number in range(1, 7)] == [
        Schema(AVRO, '"long"', {}),
        Schema(PROTOBUF, "A", {"shop/b.proto": "B"}),
        Schema(JSON, "{}", {}),
        Schema(PROTOBUF, b"D", {}),
        Schema(AVRO, '"int"', {}),
        None,
    ]
    assert server.asked == ["/schemas/ids/5", "/schemas/ids/6"]
    assert Schemas(Registry(None, str(tmp_path)), {}).get(7) is None
