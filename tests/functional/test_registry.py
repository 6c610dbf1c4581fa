"""Messages in Avro with a registry's header, from the batch that lands them to the final table."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from pyspark.sql import functions as F

from dbt_spark_cdc.landing.raw_table import create_raw
from dbt_spark_cdc.messages import decoding
from dbt_spark_cdc.messages.decoding import Decoder
from dbt_spark_cdc.messages.registry import Registry, Schemas
from dbt_spark_cdc.topics.config import read_settings
from dbt_spark_cdc.topics.log import LOG, read_known, summary
from dbt_spark_cdc.topics.raw_table import RAW, as_rows, land_again
from dbt_spark_cdc.topics.stream import Stream
from tests.registry import Registry as Server
from tests.registry import avro, framed, running, varint

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
TOPIC = "shop.public.items"
Message = tuple[bytes | None, bytes | None]


def optional(kind: Any) -> Any:
    return {"type": ["null", kind], "default": None}


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def decimal(scale: int, **more: Any) -> dict[str, Any]:
    return connect(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        logicalType="decimal",
        scale=scale,
        **{"connect.parameters": {"scale": str(scale)}},
        **more,
    )


# As Debezium's converter registers them. The precision of 64 stands for one that is not known.
COLUMNS: dict[str, Any] = {
    "id": decimal(0, precision=10),
    "price": optional(decimal(2, precision=64)),
    "free": optional(
        {
            "type": "record",
            "name": "VariableScaleDecimal",
            "namespace": "io.debezium.data",
            "connect.name": "io.debezium.data.VariableScaleDecimal",
            "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
        }
    ),
    "micros": optional(connect("long", "io.debezium.time.MicroTimestamp")),
    "zoned": optional(connect("string", "io.debezium.time.ZonedTimestamp")),
    "millis": optional(
        connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis")
    ),
    "day": optional(connect("int", "io.debezium.time.Date")),
    "uid": optional(connect("string", "io.debezium.data.Uuid")),
    "state": optional(connect("string", "io.debezium.data.Enum")),
    "ratio": optional("double"),
    "data": optional("bytes"),
    "tags": optional({"type": "array", "items": ["null", "string"]}),
    "big": optional("long"),
    "flag": optional("boolean"),
}
TYPES = {
    "id": "decimal(10,0)",
    "price": "decimal(38,2)",
    "free": "decimal(38,10)",
    "micros": "timestamp_ntz",
    "zoned": "timestamp",
    "millis": "timestamp_ntz",
    "day": "date",
    "uid": "string",
    "state": "string",
    "ratio": "double",
    "data": "binary",
    "tags": "array<string>",
    "big": "bigint",
    "flag": "boolean",
}


def schema_of(columns: dict[str, Any]) -> dict[str, Any]:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": name, **(kind if "default" in kind else {"type": kind})}
            for name, kind in columns.items()
        ],
        "connect.name": f"{TOPIC}.Value",
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [
            {"name": name, "type": kind}
            for name, kind in {
                "ts_ms": "long",
                "schema": "string",
                "table": "string",
                "lsn": ["null", "long"],
            }.items()
        ],
    }
    return {
        "type": "record",
        "name": "Envelope",
        # No name for Avro, which Debezium's topics can have all the same.
        "namespace": "my-shop.public.items",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
        "connect.name": "shop.public.items.Envelope",
    }


ENVELOPE = schema_of(COLUMNS)
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": TOPIC,
    "fields": [{"name": "id", "type": COLUMNS["id"]}],
    "connect.name": f"{TOPIC}.Key",
}
NOTHING = dict.fromkeys(COLUMNS)


def digits(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def key(id: int) -> bytes:
    return framed(1, avro(KEY, {"id": digits(id)}))


def event(
    op: str,
    lsn: int,
    row: dict[str, Any] | None,
    number: int = 2,
    schema: Any = ENVELOPE,
    nothing: dict[str, None] = NOTHING,
) -> bytes:
    content = {
        "before": None,
        "after": row and {**nothing, **row},
        "source": {"ts_ms": 1767225600000, "schema": "public", "table": "items", "lsn": lsn},
        "op": op,
    }
    return framed(number, avro(schema, content))


ANNE = {
    "id": digits(1),
    "price": digits(-123456789012345678901234567890),
    "free": {"scale": 3, "value": digits(123456)},
    "micros": 1767225600123456,
    "zoned": "2026-01-01T02:00:00.123456+02:00",
    "millis": 1767225600123,
    "day": 20454,
    "uid": "0e37df36-f698-11e6-8dd4-cb9ced3df976",
    "state": "ü",
    "ratio": math.nan,
    "data": b"\x00\xff",
    "tags": ["a", None],
    "big": 2**63 - 1,
    "flag": True,
}


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as registry:
        registry.schemas[1] = {"schema": json.dumps(KEY)}
        registry.schemas[2] = {"schema": json.dumps(ENVELOPE)}
        yield registry


class Landing:
    """Runs that land messages of one partition in a raw table."""

    def __init__(self, spark: Any, raw: str, server: Server, folder: Path | None = None) -> None:
        self.spark, self.raw, self.server = spark, raw, server
        self.registry = Registry(server.url, str(folder) if folder else None)
        self.settings, _ = read_settings([TOPIC], raw)
        self.next = 0
        create_raw(spark, raw, RAW)

    def run(self, *batches: Sequence[Message]) -> None:
        known = read_known(self.spark, self.raw, None)
        assert [*known.next.values()] == ([self.next] if self.next else [])
        decoder = Decoder(Schemas(self.registry, {}))
        last = known.last
        if land_again(self.spark, self.raw, decoder, last + 1, last):
            last += 1
        stream = Stream(self.spark, {}, self.settings, {TOPIC: "one"}, last, last + 1, decoder)
        for epoch, batch in enumerate(batches):
            rows = [
                (sent[0], sent[1], TOPIC, 0, self.next + number, NOW, None)
                for number, sent in enumerate(batch)
            ]
            stream._write(self.spark.createDataFrame(rows, MESSAGES), epoch)
            self.next += len(batch)

    def rows(self) -> list[dict[str, Any]]:
        found = self.spark.table(self.raw).orderBy("_batch", "offset").collect()
        return [row.asDict(recursive=True) for row in found]


@pytest.fixture
def landing(spark: Any, server: Server) -> Iterator[Landing]:
    yield Landing(spark, "registry_raw.messages", server)
    spark.sql("drop table if exists registry_raw.messages")


def test_text_is_what_connect_would_have_written(landing: Landing) -> None:
    sent = [(key(1), event("c", 1, ANNE)), (key(1), None), (None, b'{"id": "plain"}')]
    landing.run(sent)
    first, tombstone, plain = landing.rows()
    assert json.loads(first["key"]) == {"id": b64encode(digits(1)).decode()}
    value = json.loads(first["value"])
    assert [*value] == ["schema", "payload"]
    assert value["payload"] == {
        "before": None,
        "after": {
            **ANNE,
            "id": b64encode(ANNE["id"]).decode(),
            "price": b64encode(ANNE["price"]).decode(),
            "free": {"scale": 3, "value": b64encode(ANNE["free"]["value"]).decode()},
            "ratio": "NaN",
            "data": b64encode(ANNE["data"]).decode(),
        },
        "source": {"ts_ms": 1767225600000, "schema": "public", "table": "items", "lsn": 1},
        "op": "c",
    }
    [image] = value["schema"]["fields"]
    assert {one["field"]: one.get("name") for one in image["fields"]}["micros"] == (
        "io.debezium.time.MicroTimestamp"
    )
    assert (tombstone["value"], tombstone["value_bytes"], tombstone["_problem"]) == (None,) * 3
    assert json.loads(tombstone["key"]) == {"id": "AQ=="}
    assert (plain["value"], plain["value_bytes"], plain["_problem"]) == (
        '{"id": "plain"}',
        None,
        None,
    )
    # What was sent is always there.
    for row, (sent_key, sent_value) in zip(landing.rows(), sent, strict=True):
        for name, content in (("key", sent_key), ("value", sent_value)):
            kept = row[f"{name}_bytes"]
            text = None if row[name] is None else row[name].encode()
            assert (text if kept is None else bytes(kept)) == content


def test_values_of_other_programs(landing: Landing) -> None:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": name, "type": kind}
            for name, kind in {
                "price": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
                "at": {"type": "long", "logicalType": "timestamp-micros"},
                "day": {"type": "int", "logicalType": "date"},
                "state": {"type": "enum", "name": "State", "symbols": ["OLD", "NEW"]},
                "uid": {"type": "string", "logicalType": "uuid"},
                "nothing": ["null", "int"],
            }.items()
        ],
    }
    content = {
        "price": digits(123456789012345678),
        "at": 1767225600123456,
        "day": 20454,
        "state": "NEW",
        "uid": "0e37df36-f698-11e6-8dd4-cb9ced3df976",
        "nothing": None,
    }
    landing.server.schemas |= {
        3: {"schema": json.dumps(row)},
        4: {"schema": '"long"'},
        5: {"schema": "{}", "schemaType": "JSON"},
        6: {"schema": '"string"', "schemaType": "XML"},
        7: {"schema": '{"type": "record"}'},
    }
    landing.run(
        [
            (framed(4, avro("long", -5)), framed(3, avro(row, content))),
            (None, framed(5, b'{"a": 1.10}')),
            (None, framed(5, b'\xff{"a": 1}')),
            (None, framed(6, b"<a/>")),
            (None, framed(7, b"")),
            (b"\x00", b"\x00\x01"),
        ]
    )
    first, text, no_text, xml, broken, short = landing.rows()
    assert (first["key"], first["value"]) == (
        "-5",
        '{"price":1234567890123456.78,"at":"2026-01-01T00:00:00.123456Z","day":"2026-01-01",'
        '"state":"NEW","uid":"0e37df36-f698-11e6-8dd4-cb9ced3df976","nothing":null}',
    )
    assert (text["value"], text["_problem"]) == ('{"a": 1.10}', None)
    assert no_text["_problem"] == "value does not match schema 5"
    assert xml["_problem"] == "schema 6 cannot be read: it is of the unknown kind XML"
    assert broken["_problem"].startswith("schema 7 cannot be read: ")
    assert (short["key"], short["value"], short["_problem"]) == ("\x00", "\x00\x01", None)


def test_what_cannot_be_decoded_keeps_its_bytes(landing: Landing) -> None:
    cut = event("c", 1, ANNE)[:-3]
    landing.run(
        [
            (key(1), cut),
            (key(1), event("c", 1, ANNE, number=42)),
            (framed(41, b"?"), event("c", 2, ANNE)),
            (framed(1, b"\x09"), framed(42, b"abc")),
            (key(1), framed(2, b"")),
        ]
    )
    rows = landing.rows()
    assert [row["_problem"] for row in rows] == [
        "value does not match schema 2",
        "no registry knows schema id 42",
        "no registry knows schema id 41 of the key",
        "no registry knows schema id 42; key does not match schema 1",
        "value does not match schema 2",
    ]
    assert bytes(rows[0]["value_bytes"]) == cut
    assert bytes(rows[2]["key_bytes"]) == framed(41, b"?")
    assert json.loads(rows[2]["value"])["payload"]["op"] == "c"
    assert bytes(rows[3]["value_bytes"]) == framed(42, b"abc")
    # Each schema is asked for once.
    assert len(landing.server.asked) == len(set(landing.server.asked)) == 4


def test_damage_of_any_kind_stops_nothing(landing: Landing) -> None:
    landing.server.schemas[4] = {"schema": '{"type": "array", "items": "string"}'}
    sound = avro({"type": "array", "items": "string"}, ["a"])
    # Lengths that no memory has, a negative one, and one with no end.
    lengths = [varint(number) for number in (2**31 - 1, 1_900_000_000, 2**40, -5)] + [b"\xff" * 11]
    damaged = [varint(1) + length for length in lengths] + [*lengths, b""]
    landing.run([(None, framed(4, content)) for content in [*damaged, sound]])
    *bad, good = landing.rows()
    assert {row["_problem"] for row in bad} == {"value does not match schema 4"}
    assert good["value"] == '["a"]'


def test_a_message_is_decoded_once(landing: Landing) -> None:
    messages = landing.spark.createDataFrame(
        [(key(1), event("c", 1, ANNE), TOPIC, 0, 0, NOW, None)], MESSAGES
    )
    rows = as_rows(Decoder(Schemas(landing.registry, {})).decode(messages), {TOPIC: "one"})
    plan = rows._jdf.queryExecution().optimizedPlan().toString()
    assert plan.lower().count("from_avro(") == 2


PROTO = """
syntax = "proto3";
package shop;
message First { int32 a = 1; }
message Second { message Inside { message Deep { int32 a = 1; } } }
"""


def test_each_protobuf_message_is_read_as_the_one_that_its_header_names(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tests/e2e/test_registry.py reads them with Spark's own function, where its jar can be had.
    def from_protobuf(data: Any, name: str, **_: Any) -> Any:
        return F.when(
            F.length(data) > 0, F.struct(F.lit(name).alias("name"), F.hex(data).alias("sent"))
        )

    landing.server.schemas[9] = {"schema": PROTO, "schemaType": "PROTOBUF"}
    # Without the jar nothing is landed, and nothing goes to the quarantine.
    with pytest.raises(RuntimeError, match=r"org\.apache\.spark:spark-protobuf_2\.13:"):
        landing.run([(None, framed(9, b"\x00"))])
    assert landing.rows() == []
    monkeypatch.setattr(decoding, "from_protobuf", from_protobuf)
    contents = [b"\x00\xaa", b"\x02\x00\xbb", b"\x02\x02\xcc", b"\x06\x02\x00\x00\xdd"]
    contents += [b"\x00", b"\x02\x80\x01\xee", b"", b"\x03", b"\xff\xff", b"\x08\x02"]
    landing.run([(None, framed(9, content)) for content in contents])
    rows = landing.rows()
    assert [row["value"] and json.loads(row["value"]) for row in rows[:4]] == [
        {"name": "shop.First", "sent": "AA"},
        {"name": "shop.First", "sent": "BB"},
        {"name": "shop.Second", "sent": "CC"},
        {"name": "shop.Second.Inside.Deep", "sent": "DD"},
    ]
    no_message = "schema 9 cannot be read: the header does not say which message it is"
    assert [row["_problem"] for row in rows] == [
        *[None] * 4,
        "value does not match schema 9",
        "schema 9 cannot be read: it has no message 64 in shop",
        *[no_message] * 4,
    ]


def test_a_registry_that_is_away_stops_the_run(landing: Landing) -> None:
    landing.run([(key(1), event("c", 1, ANNE))])
    landing.server.broken = 503, ""
    batch = [(key(1), event("u", 2, ANNE))]
    with pytest.raises(RuntimeError, match="could not be asked for schema 2: it answers 503"):
        landing.run(batch)
    assert len(landing.rows()) == 1
    landing.server.broken = None
    landing.run(batch)
    assert [row["_problem"] for row in landing.rows()] == [None, None]


def test_messages_are_landed_again_when_their_schema_is_known(
    spark: Any, server: Server, tmp_path: Path
) -> None:
    landing = Landing(spark, "registry_raw.again", server, tmp_path)
    unknown = event("c", 1, ANNE, number=42)
    landing.run([(key(1), unknown), (key(2), event("c", 2, ANNE))], [(key(1), unknown)])
    landing.run([(key(3), event("c", 3, ANNE, number=43))])
    (tmp_path / "42.avsc").write_text(json.dumps(ENVELOPE))
    landing.run([(key(1), event("u", 4, ANNE))])
    landing.run()
    landing.run([(key(1), event("u", 5, ANNE))])

    found = [
        (row["_batch"], row["_previous_batch"], row["_first_batch"], row["offset"], row["_problem"])
        for row in landing.rows()
    ]
    said = "no registry knows schema id 4"
    assert found == [
        (0, -1, None, 0, f"{said}2"),
        (0, -1, None, 1, None),
        (1, 0, None, 2, f"{said}2"),
        (2, 1, None, 3, f"{said}3"),
        (3, 2, 0, 0, None),
        (3, 2, 1, 2, None),
        (4, 3, None, 4, None),
        (5, 4, None, 5, None),
    ]
    again = landing.rows()[4]
    assert json.loads(again["value"])["payload"]["op"] == "c"
    assert (bytes(again["value_bytes"]), again["_topic_id"]) == (unknown, "one")
    # The log does not take them for the end of the partition either.
    log = spark.createDataFrame(
        [tuple(row) for row in summary(spark, landing.raw, -1).collect()], LOG
    )
    assert [*read_known(spark, landing.raw, log).next.values()] == [6]
    spark.sql("drop table registry_raw.again")


class TestToTheFinalTable:
    """Types of all kinds, a schema that changes, a delete, bad messages, all of it twice."""

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+file_format": "delta"},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        columns = [
            {"name": name, "data_type": kind} for name, kind in (TYPES | {"more": "string"}).items()
        ]
        cdc = {
            "format": "debezium",
            "landed": True,
            "message_key": "key",
            "keys": ["id"],
            "history": False,
            "source_table": "public.items",
        }
        table = {
            "name": "items",
            "identifier": "messages",
            "config": {"meta": {"cdc": cdc}},
            "columns": columns,
        }
        sources = [{"name": "shop", "schema": "{{ target.schema }}", "tables": [table]}]
        return {
            "sources.yml": json.dumps({"sources": sources}),
            "stg_items.sql": "{{ cdc.events(source('shop', 'items')) }}",
            "items_quarantine.sql": "{{ config(materialized='view') }}"
            "{{ cdc.quarantine(source('shop', 'items')) }}",
            "items.sql": "{{ config(materialized='incremental', incremental_strategy='merge',"
            " unique_key=['id']) }}{{ cdc.current(ref('stg_items')) }}",
        }

    def test_the_rows_of_the_source(self, project: Any, spark: Any, server: Server) -> None:
        run_dbt(["deps"])
        schema = project.test_schema
        landing = Landing(spark, f"{schema}.messages", server)
        wider = {**COLUMNS, "price": optional(decimal(1, precision=20)), "more": optional("string")}
        changed = schema_of(wider)
        server.schemas[3] = {"schema": json.dumps(changed)}
        first = [
            (key(1), event("c", 1, ANNE)),
            (key(2), event("r", 2, {"id": digits(2)})),
            (key(3), event("c", 3, {"id": digits(3), "big": 5})),
            (key(4), event("c", 4, {"id": digits(4)}, number=42)),
            (key(5), event("c", 5, {"id": digits(5)})[:-1]),
        ]
        second = [
            (key(3), event("d", 6, None)),
            (key(3), None),
            (
                key(2),
                event(
                    "u",
                    7,
                    {"id": digits(2), "price": digits(15), "more": "x"},
                    3,
                    changed,
                    dict.fromkeys(wider),
                ),
            ),
        ]

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in project.run_sql(sql, fetch="all")]

        def living(columns: str) -> list[tuple[Any, ...]]:
            return rows(
                f"select {columns} from {schema}.items where _cdc_deleted_at is null order by id"
            )

        landing.run(first)
        run_dbt(["build"])
        assert living("id, big") == [(1, 2**63 - 1), (2, None), (3, 5)]
        landing.run(second, first)
        run_dbt(["build"])
        assert living("id, price, more") == [
            (1, Decimal("-1234567890123456789012345678.90"), None),
            (2, Decimal("1.50"), "x"),
        ]
        [anne] = rows(
            "select free, cast(micros as string), cast(unix_micros(zoned) as string),"
            " cast(millis as string), cast(day as string), uid, state, isnan(ratio), hex(data),"
            f" to_json(tags), flag from {schema}.items where id = 1"
        )
        assert anne == (
            Decimal("123.4560000000"),
            "2026-01-01 00:00:00.123456",
            "1767225600123456",
            "2026-01-01 00:00:00.123",
            "2026-01-01",
            ANNE["uid"],
            "ü",
            True,
            "00FF",
            '["a",null]',
            True,
        )
        assert rows(
            f"select _reason, count(*), min(_origin) from {schema}.items_quarantine group by 1"
            " order by 1"
        ) == [
            ("no registry knows schema id 42", 2, f"{TOPIC}/0:11"),
            ("value does not match schema 2", 2, f"{TOPIC}/0:12"),
        ]
        # Once somebody knows the schema, the next run lands the message again.
        server.schemas[42] = {"schema": json.dumps(ENVELOPE)}
        landing.run()
        run_dbt(["build"])
        assert living("id") == [(1,), (2,), (4,)]
