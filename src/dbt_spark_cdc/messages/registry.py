"""The schemas of messages: from a registry with Confluent's interface, or from files of a folder.

A message names its schema by number: a zero byte, four bytes of the number, the content.
`dbt_spark_cdc.messages.decoding` reads the content. docs/kafka.md has the rules.
"""

from __future__ import annotations

import json
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from dbt_spark_cdc.kafka import without_secrets

# Settings of the profile, where secrets can come from the environment.
CONNECTION = "registry"
SETTINGS = ("user", "password", "token", "ca_file")
COLUMNS = ("value", "key")
OPTIONS = ("url", "folder", "columns", "connection")
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
# What the file of a schema is called in a folder: its number, and one of these.
ENDINGS = {".avsc": AVRO, ".proto": PROTOBUF, ".desc": PROTOBUF, ".json": JSON}
# By these the registry itself says that it has no such schema, subject or version. Any other 404
# says that nobody was asked.
UNKNOWN = {40401, 40402, 40403}
WAIT_SECONDS = 30
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json, application/json"


class Schema(NamedTuple):
    """How the content of messages is written.

    Attributes:
        kind: `AVRO`, `PROTOBUF` or `JSON`.
        text: As the registry has it, or the bytes of a compiled `.desc` file.
        references: The other schemas that it needs, by the name that it gives them.
    """

    kind: str
    text: str | bytes
    references: Mapping[str, str]


@dataclass(frozen=True)
class Registry:
    """Where the schemas of a topic's messages are.

    Attributes:
        url: Address of the registry.
        folder: Folder with a file for each schema. It is asked before the registry.
        columns: What has the header: `value`, `key` or both.
        connection: The settings are `spark.cdc.<connection>.*`.
    """

    url: str | None = None
    folder: str | None = None
    columns: tuple[str, ...] = COLUMNS
    connection: str = CONNECTION


class _NoRedirects(HTTPRedirectHandler):
    """The password is meant for the host that the project names, and for no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follows nothing: the answer is an error then."""


def read_registry(given: Any) -> tuple[Registry | None, list[str]]:
    """Returns what a model says of its registry, and all that is wrong with it.

    Args:
        given: The option `registry`; None where messages are text.
    """
    if given is None:
        return None, []
    if not isinstance(given, Mapping):
        return None, [
            f"it has registry={_shown(given)}: write a mapping, such as"
            " `{url: https://registry.example.com}` or `{folder: schemas}`"
        ]
    problems = [
        f"registry: it has no option {name!r}; there are {', '.join(OPTIONS)}. Passwords belong"
        f" into the profile, as `spark.cdc.{CONNECTION}.password`"
        for name in given
        if name not in OPTIONS
    ]
    url, folder = given.get("url"), given.get("folder")
    if url is None and folder is None:
        problems.append("registry: write the `url` of a registry, or a `folder` of schema files")
    if url is not None:
        problems += _problems_of_url(url)
    if folder is not None and (not isinstance(folder, str) or not Path(folder).is_dir()):
        problems.append(
            f"registry: the folder {folder!r} does not exist: create it, or correct `folder`"
        )
    columns = given.get("columns", list(COLUMNS))
    if not isinstance(columns, list | tuple) or not columns or set(columns) - set(COLUMNS):
        problems.append(
            f"registry: it has columns={columns!r}: write a list of what is decoded, `value`,"
            " `key` or both"
        )
        columns = COLUMNS
    name = given.get("connection", CONNECTION)
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        problems.append(
            f"registry: it has connection={name!r}: write a name of letters, digits and `_`"
        )
        name = CONNECTION
    return (None if problems else Registry(url, folder, tuple(columns), name)), problems


def _shown(given: Any) -> str:
    """A wrong value for a message, without the password that an address can have."""
    return re.sub(r"//[^@/]*@", "//***@", repr(given))


def _problems_of_url(url: Any) -> list[str]:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return [
            f"registry: it has url={_shown(url)}: write one address, such as"
            " `https://registry.example.com`"
        ]
    if "@" in parts.netloc:
        return [
            "registry: the url has a password, which logs would show: write"
            f" `spark.cdc.{CONNECTION}.user` and `spark.cdc.{CONNECTION}.password` to the profile's"
            " server_side_parameters, from `env_var`"
        ]
    return []


def registry_options(session: Any, connection: str) -> tuple[dict[str, str], list[str]]:
    """Returns the settings of the profile for a registry, and what is wrong with them.

    Args:
        session: Spark session.
        connection: The settings are `spark.cdc.<connection>.*`.
    """
    prefix = f"spark.cdc.{connection}."
    options = {
        name.removeprefix(prefix): value
        for name, value in session.conf.getAll.items()
        if name.startswith(prefix)
    }
    problems = [
        f"the profile has {prefix}{name}, which a registry does not know: remove it; there are"
        f" {', '.join(SETTINGS)}"
        for name in sorted(options)
        if name not in SETTINGS
    ]
    if ("user" in options) != ("password" in options):
        problems.append(f"the profile needs both {prefix}user and {prefix}password, or neither")
    if "token" in options and "user" in options:
        problems.append(f"the profile has {prefix}token and {prefix}user: leave one of them")
    if (file := options.get("ca_file")) and not Path(file).is_file():
        problems.append(
            f"the profile has {prefix}ca_file={file!r}, and there is no such file: correct the path"
        )
    return options, problems


class Schemas:
    """Finds schemas by number, each of them once."""

    def __init__(self, registry: Registry, options: Mapping[str, str]) -> None:
        self.registry, self.options = registry, options
        self.found: dict[int, Schema | None] = {}
        tls = ssl.create_default_context(cafile=options.get("ca_file"))
        self.opener = build_opener(_NoRedirects, HTTPSHandler(context=tls))

    def get(self, number: int) -> Schema | None:
        """Returns a schema; None where nobody knows it.

        Args:
            number: Its id.

        Raises:
            RuntimeError: The registry does not answer, or not as a registry does.
        """
        if number not in self.found:
            self.found[number] = self._in_folder(number) or self._in_registry(number)
        return self.found[number]

    def _in_folder(self, number: int) -> Schema | None:
        if not self.registry.folder:
            return None
        folder = Path(self.registry.folder)
        for ending, kind in ENDINGS.items():
            file = folder / f"{number}{ending}"
            if not file.is_file():
                continue
            if ending == ".desc":
                return Schema(kind, file.read_bytes(), {})
            others = folder.rglob("*.proto") if kind == PROTOBUF else []
            imports = {
                other.relative_to(folder).as_posix(): other.read_text("utf-8")
                for other in others
                if other != file
            }
            return Schema(kind, file.read_text("utf-8"), imports)
        return None

    def _in_registry(self, number: int) -> Schema | None:
        if not self.registry.url:
            return None
        answer = self._ask(f"/schemas/ids/{number}", number)
        references: dict[str, str] = {}
        open_references = list(answer.get("references") or []) if answer else []
        while open_references:
            one = open_references.pop()
            if one["name"] in references:
                continue
            subject = quote(one["subject"], safe="")
            found = self._ask(f"/subjects/{subject}/versions/{one['version']}", number)
            if found is None:
                return None
            references[one["name"]] = found["schema"]
            open_references += found.get("references") or []
        return answer and Schema(answer.get("schemaType") or AVRO, answer["schema"], references)

    def _ask(self, path: str, number: int) -> Any:
        """The answer of the registry, None where it says that there is no such thing."""
        headers = {"Accept": MEDIA_TYPE}
        if token := self.options.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        elif user := self.options.get("user"):
            pair = f"{user}:{self.options['password']}".encode()
            headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        url = str(self.registry.url).rstrip("/")
        try:
            request = Request(url + path, headers=headers)
            with self.opener.open(request, timeout=WAIT_SECONDS) as answer:
                found = json.load(answer)
            if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
                raise ValueError("the answer is not a schema")
            return found
        except HTTPError as exc:
            if exc.code == 404 and _error_code(exc) in UNKNOWN:
                return None
            reason = f"it answers {exc.code} {exc.reason}"
        except (HTTPException, OSError, ValueError) as exc:
            reason = str(getattr(exc, "reason", exc))
        raise RuntimeError(
            f"the schema registry at {url} could not be asked for schema {number}:"
            f" {without_secrets(reason, self.options)}. Check that it runs, the `url`, and the"
            f" settings spark.cdc.{self.registry.connection}.* of the profile"
        )


def _error_code(answer: HTTPError) -> int | None:
    try:
        return json.load(answer)["error_code"]
    except (KeyError, TypeError, ValueError):
        return None
