"""Messages in Avro and Protobuf become JSON text, by Spark's own functions.

What a batch holds decides what is asked for: the numbers of its schemas are few. For each of them
there is an expression, and every message goes through that of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from dbt.adapters.sparkcdc.errors import message_of
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.protobuf.functions import from_protobuf

from dbt_spark_cdc.kafka import how_to_add
from dbt_spark_cdc.messages.avro_schema import PAYLOAD, AvroSchema
from dbt_spark_cdc.messages.registry import AVRO, JSON, PROTOBUF, Schema, Schemas

# NULLs are values, and no digit of a time is cut off.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
AVRO_OPTIONS = {"mode": "PERMISSIVE"}
# A field that is not sent has its default, unless its schema can tell that from a NULL.
PROTOBUF_OPTIONS = {
    "mode": "PERMISSIVE",
    "emit.default.values": "true",
    "unwrap.primitive.wrapper.types": "true",
    "upcast.unsigned.ints": "true",
    "retain.empty.message.types": "true",
}
# What is decoded is an object of this one field, so that a key may be a number or a text, too.
BEFORE, AFTER = f'{{"{PAYLOAD}":', "}"
UNKNOWN = "no registry knows schema id "
# Schemas that Confluent's clients know by themselves.
PROTOS = Path(__file__).with_name("protos")
FIRST_MESSAGE = b"\x00"
# What Spark says where a jar is missing.
NO_FUNCTION = "NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"


class Reader(NamedTuple):
    """How messages of a schema are read.

    Attributes:
        which: The messages, beside those of other readers.
        json: Their content as the text of an object of one field; NULL where it does not fit.
        head: What stands before that field in the text, if it has the object around it.
        problem: What is wrong with those that have no text.
    """

    which: Column
    json: Column | None
    head: str | None
    problem: str


class Decoder:
    """Decodes the messages of a run."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.descriptors: dict[int, bytes] = {}

    def decode(self, messages: DataFrame) -> DataFrame:
        """Returns messages with `<column>_text` and `<column>_problem` for what has the header.

        Args:
            messages: As Spark's connector reads them.

        Raises:
            RuntimeError: The registry does not answer, or something is not installed.
        """
        for name in self.schemas.registry.columns:
            has_header = _has_header(name)
            readers = list(self._readers(messages, name))
            steps: list[tuple[str, Callable[[Reader], Column]]] = [
                ("json", lambda one: F.lit(None) if one.json is None else one.json),
                ("head", lambda one: F.lit(one.head)),
                ("doubt", lambda one: F.lit(one.problem)),
            ]
            for step, of in steps:
                found = _choice([(one.which, of(one)) for one in readers])
                messages = messages.withColumn(f"_{name}_{step}", F.when(has_header, found))
            # Spark decodes once, although the text is used several times.
            json, head = F.col(f"_{name}_json"), F.col(f"_{name}_head")
            bare = F.substring(json, len(BEFORE) + 1, F.length(json) - len(BEFORE + AFTER))
            text = F.when(
                json != BEFORE + "null" + AFTER,
                F.when(head.isNull(), bare).otherwise(
                    F.concat(head, F.substring(json, 2, F.length(json)))
                ),
            )
            messages = messages.withColumn(f"{name}_text", text).withColumn(
                f"{name}_problem",
                F.when(has_header & F.col(f"{name}_text").isNull(), F.col(f"_{name}_doubt")),
            )
        return messages

    def knows(self, problem: str) -> bool:
        """Whether there is a schema now for messages of which there was none.

        Args:
            problem: What was said of them.
        """
        numbers = [part.split()[0] for part in problem.split(UNKNOWN)[1:]]
        return all(self.schemas.get(int(number.strip(";"))) for number in numbers)

    def _readers(self, messages: DataFrame, name: str) -> Iterator[Reader]:
        number = F.expr(f"cast(conv(hex(substring({name}, 2, 4)), 16, 10) as bigint)")
        given = messages.where(_has_header(name))
        found = [row[0] for row in given.select(number).distinct().collect()]
        places = F.expr(_places(name))
        compiled = []
        for one in sorted(found):
            schema = self.schemas.get(one)
            if schema is None:
                yield Reader(number == one, None, None, UNKNOWN + _of(one, name))
            elif schema.kind == PROTOBUF:
                compiled.append(one)
            else:
                yield self._reader(given, name, one, number == one, schema)
        if compiled:
            pairs = given.where(number.isin(compiled)).select(number, places).distinct().collect()
            for one, place in sorted(pairs, key=str):
                which = (number == one) & places.eqNullSafe(F.lit(place))
                schema = self.schemas.get(one)
                assert schema is not None
                yield self._reader(given, name, one, which, schema, bytes(place or b""))

    def _reader(
        self,
        messages: DataFrame,
        name: str,
        number: int,
        which: Column,
        schema: Schema,
        place: bytes = b"",
    ) -> Reader:
        """How messages of a schema are read; that they cannot be, where Spark cannot do it."""
        payload = F.expr(f"substring({name}, {6 + len(place)})")
        head = None
        try:
            if schema.kind == AVRO:
                avro = AvroSchema(str(schema.text), schema.references)
                is_connect = name == "key" and "connect.name" in str(schema.text)
                record = from_avro(
                    payload, avro.for_spark(avro.is_debezium() or is_connect), AVRO_OPTIONS
                )
                json = F.to_json(record, JSON_OPTIONS)
                if name == "value" and avro.is_debezium():
                    head = f'{{"schema":{avro.for_connect()},'
            elif schema.kind == JSON:
                text = payload.cast("string")
                json = F.when(F.is_valid_utf8(text), F.concat(F.lit(BEFORE), text, F.lit(AFTER)))
            elif schema.kind == PROTOBUF:
                if number not in self.descriptors:
                    self.descriptors[number] = descriptors(schema)
                described = self.descriptors[number]
                message = from_protobuf(
                    payload,
                    message_name(described, place),
                    options=PROTOBUF_OPTIONS,
                    binaryDescriptorSet=described,
                )
                json = F.to_json(F.struct(message.alias(PAYLOAD)), JSON_OPTIONS)
            else:
                raise ValueError(f"it is of the unknown kind {schema.kind}")
            # Spark reads the schema when it plans.
            _ = messages.select(json).schema
        except ToolMissing:
            raise
        except Exception as exc:
            said = " ".join(message_of(exc).split())
            if NO_FUNCTION in said:
                raise ToolMissing(_no_function(schema.kind)) from exc
            return Reader(which, None, None, f"schema {_of(number, name)} cannot be read: {said}")
        return Reader(which, json, head, f"{name} does not match schema {number}")


class ToolMissing(RuntimeError):
    """Something has to be installed before messages can be decoded."""


def descriptors(schema: Schema) -> bytes:
    """Returns a Protobuf schema and all that it imports as a set of descriptors.

    Args:
        schema: Text, or a set that was compiled before.

    Raises:
        ToolMissing: There is no compiler.
        ValueError: The schema cannot be compiled.
    """
    if isinstance(schema.text, bytes):
        return schema.text
    try:
        google = Path(import_module("google.type").__path__[0]).parents[1]
        import_module("grpc_tools")
    except ImportError as exc:
        raise ToolMissing(
            "the schema of a message is Protobuf and has to be compiled: pip install"
            " 'dbt-spark-cdc[protobuf]', or put its compiled form into the `folder` of `registry`,"
            " `<id>.desc`"
        ) from exc
    with tempfile.TemporaryDirectory(prefix="cdc-schema-") as folder:
        files = {"message.proto": schema.text, **schema.references}
        for name, text in files.items():
            file = Path(folder, name)
            if not file.resolve().is_relative_to(Path(folder).resolve()):
                raise ValueError(f"it imports {name}, which is outside of its folder")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        compiled = Path(folder, "message.desc")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{PROTOS}"]
        command += [f"-I{google}", "--include_imports", f"--descriptor_set_out={compiled}"]
        done = subprocess.run([*command, "message.proto"], capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr.strip().replace(f"{folder}/", ""))
        return compiled.read_bytes()


def message_name(described: bytes, place: bytes) -> str:
    """Returns the full name of the message that a header means.

    Args:
        described: A set of descriptors. Its last file has the message.
        place: What stands between the id and the message: which of the messages of the file it is,
            then which of those inside it, and so on.

    Raises:
        ValueError: There is no such message.
    """
    # Its classes are made when it is loaded.
    file = import_module("google.protobuf.descriptor_pb2").FileDescriptorSet.FromString(described)
    file = file.file[-1]
    names, inside = [file.package] if file.package else [], file.message_type
    for number in message_path(place):
        if not 0 <= number < len(inside):
            raise ValueError(f"it has no message {number} in {'.'.join(names) or file.name}")
        names.append(inside[number].name)
        inside = inside[number].nested_type
    return ".".join(names)


def message_path(place: bytes) -> Sequence[int]:
    """Reads the numbers of a message and of those that it is in: the count, then each of them.

    Args:
        place: Numbers as Protobuf writes those that can be negative.

    Raises:
        ValueError: These are no such numbers.
    """
    if place == FIRST_MESSAGE:
        return [0]
    numbers, shift, value = [], 0, 0
    for byte in place:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append((value >> 1) ^ -(value & 1))
            shift, value = 0, 0
    if shift or len(numbers) < 2 or len(numbers) != numbers[0] + 1:
        raise ValueError("the header does not say which message it is")
    return numbers[1:]


def _has_header(name: str) -> Column:
    """Text begins with no zero byte."""
    return F.expr(f"length({name}) >= 5 and substring({name}, 1, 1) = X'00'")


def _places(name: str) -> str:
    """What stands between the id and a Protobuf message: as many numbers as the first one says."""

    def byte(position: str) -> str:
        return f"cast(conv(hex(substring({name}, {position}, 1)), 16, 10) as int)"

    ends = f"filter(sequence(1, 64), at -> {byte('5 + at')} < 128)"
    return (
        f"if(substring({name}, 6, 1) = X'00', X'00',"
        f" substring({name}, 6, get({ends}, {byte('6')} div 2)))"
    )


def _choice(branches: Sequence[tuple[Column, Column]]) -> Column:
    """The value of the first condition that holds."""
    if not branches:
        return F.lit(None).cast("string")
    (which, value), *others = branches
    return reduce(lambda chosen, one: chosen.when(*one), others, F.when(which, value)).cast(
        "string"
    )


def _of(number: int, name: str) -> str:
    return f"{number} of the key" if name == "key" else str(number)


def _no_function(kind: str) -> str:
    package = f"spark-{kind.lower()}"
    return f"Spark has no function that decodes {kind.title()}: {how_to_add(package)}"
