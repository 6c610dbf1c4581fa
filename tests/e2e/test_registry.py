"""From a broker and a schema registry to tables: Avro and Protobuf, and a registry that is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.jvm import jars
from dbt.adapters.sparkcdc.prepare import prepare
from dbt_common.exceptions import DbtRuntimeError

from dbt_spark_cdc.messages.decoding import descriptors
from dbt_spark_cdc.messages.registry import PROTOBUF as KIND
from dbt_spark_cdc.messages.registry import Schema
from tests.e2e.servers import KafkaClient, dbt, kafka_broker
from tests.e2e.test_topics import (
    CONNECTOR,
    CUSTOMERS,
    SECRET,
    Tables,
    _run,
    add_tables,
    configure,
    write_project,
)
from tests.registry import Registry, avro, framed, running

AVRO = f"{CONNECTOR},org.apache.spark:spark-avro_2.13:4.1.1"
PROTOBUF = f"{CONNECTOR},org.apache.spark:spark-protobuf_2.13:4.1.1"
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "ts_ms", "type": "long"},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "lsn", "type": ["null", "long"]},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": f"{CUSTOMERS}",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ],
}
# As Confluent's converter writes it: nested messages, one of them Confluent's own.
PROTO = """
syntax = "proto3";
package shop.customers;
import "google/protobuf/timestamp.proto";
import "confluent/type/decimal.proto";
message Envelope {
  Value before = 1;
  Value after = 2;
  Source source = 3;
  string op = 4;
  message Value {
    int32 id = 1;
    optional string name = 2;
    google.protobuf.Timestamp at = 3;
    confluent.type.Decimal price = 4;
    int64 zero = 5;
    bytes data = 6;
  }
  message Source { int64 ts_ms = 1; string schema = 2; string table = 3; int64 lsn = 4; }
}
message Key { int32 id = 1; }
"""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


def change(op: str, lsn: int, row: dict[str, Any] | None) -> dict[str, Any]:
    source = {"ts_ms": 1_700_000_000_000 + lsn, "schema": "public", "table": "customers"}
    return {"before": None, "after": row, "source": {**source, "lsn": lsn}, "op": op}


def event(op: str, lsn: int, row: dict[str, Any] | None, number: int = 7) -> bytes:
    return framed(number, avro(ENVELOPE, change(op, lsn, row)))


def test_avro(tmp_path: Path, registry: Registry, spark: Any) -> None:
    project, broker = tmp_path / "project", tmp_path / "kafka"
    broker.mkdir()
    tables = Tables(spark, project)
    with kafka_broker(broker) as port:
        client = KafkaClient(broker, port)
        client.create(CUSTOMERS, 1)
        client.send(CUSTOMERS, event("c", 1, {"id": 1, "name": "Anne"}), b'{"id": 1}')
        client.send(CUSTOMERS, event("c", 2, {"id": 2, "name": None}), b'{"id": 2}')
        client.send(CUSTOMERS, event("c", 3, {"id": 3, "name": "Eve"}, 42), b'{"id": 3}')
        client.flush()
        config = {"topics": [CUSTOMERS], "registry": {"url": registry.url}}
        write_project(project, port, **config)
        registry.schemas[7] = {"schema": json.dumps(ENVELOPE)}
        # Without the jar nothing is landed, and the message names it.
        code, said = _run(project)
        assert code == 1
        assert not tables.rows("landed.messages", "*")
        assert "spark.jars.packages: org.apache.spark:spark-avro_2.13:4.1.1" in said
        profile = project / "profiles.yml"
        profile.write_text(profile.read_text().replace(CONNECTOR, AVRO))
        # The registry does not know the password: the run fails and does not show it.
        registry.broken = 401, json.dumps({"error_code": 40101})
        code, said = _run(project)
        assert code == 1
        assert "could not be asked for schema 7: it answers 401" in said
        assert not tables.rows("landed.messages", "*")
        registry.broken = None
        assert _run(project)[0] == 0
        assert registry.authorization[-1] == "Basic bGFuZGluZzpub3QtdG8tYmUtc2hvd24="
        landed = tables.rows("landed.messages", "_problem, count(*)", "group by 1 order by 1")
        assert landed == [(None, 2), ("no registry knows schema id 42", 1)]
        # Once it is known, the message is landed again, and nothing else is.
        registry.schemas[42] = {"schema": json.dumps(ENVELOPE)}
        add_tables(project)
        client.send(CUSTOMERS, event("d", 4, None), b'{"id": 1}')
        client.flush()
        client.close()
        for _ in range(2):
            dbt(project, "build", "--quiet")
            assert sorted(tables.rows("customers", "id, name")) == [(2, None), (3, "Eve")]
            assert tables.rows("landed.messages", "count(*)") == [(5,)]
        log = (project / "logs" / "dbt.log").read_text()
        assert SECRET not in log
        # Wrong configuration is reported at once, with its remedy.
        configure(project, topics=[CUSTOMERS], registry={"url": "registry", "columns": ["x"]})
        code, said = _run(project)
        assert code == 1
        assert "registry: it has url='registry'" in said
        assert "registry: it has columns=['x']" in said


def test_protobuf(tmp_path: Path, registry: Registry, spark: Any) -> None:
    wanted = {"spark.jars.packages": PROTOBUF}
    if not jars.cached_jars(jars.packages(wanted)):
        try:
            prepare(wanted)
        except DbtRuntimeError:
            pytest.skip("spark-protobuf cannot be fetched")
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    described = descriptor_pb2.FileDescriptorSet.FromString(  # type: ignore[attr-defined]
        descriptors(Schema(KIND, PROTO, {}))
    )
    pool = descriptor_pool.DescriptorPool()
    for file in described.file:
        pool.Add(file)

    def message(name: str, content: dict[str, Any]) -> bytes:
        of = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.customers.{name}"))
        return bytes(json_format.ParseDict(content, of()).SerializeToString())

    full = {
        "id": 1,
        "name": "",
        "at": "2026-01-01T00:00:00.123456Z",
        "price": {"value": "AN8=", "precision": 5, "scale": 2},
        "data": "AP8=",
    }
    registry.schemas[7] = {"schema": PROTO, "schemaType": "PROTOBUF"}
    project, broker = tmp_path / "project", tmp_path / "kafka"
    broker.mkdir()
    tables = Tables(spark, project)
    with kafka_broker(broker) as port:
        client = KafkaClient(broker, port)
        client.create(CUSTOMERS, 1)
        for number, row in enumerate((full, {"id": 2}), start=1):
            # The key is the second message of the file: one number, which is 1.
            client.send(
                CUSTOMERS,
                framed(7, b"\x00" + message("Envelope", change("c", number, row))),
                framed(7, b"\x02\x02" + message("Key", {"id": row["id"]})),
            )
        client.send(CUSTOMERS, framed(7, b"\x00\xff\xff"))
        client.send(CUSTOMERS, framed(7, b"\x02\x08" + b"abc"))
        client.flush()
        client.close()
        config = {"topics": [CUSTOMERS], "registry": {"url": registry.url}}
        write_project(project, port, PROTOBUF, **config)
        code, said = _run(project)
        assert code == 0, said
    found = tables.rows("landed.messages", "key, value, _problem", "order by offset")
    assert [row[2] for row in found[:3]] == [None, None, "value does not match schema 7"]
    assert found[3][2].startswith("schema 7 cannot be read: it has no message 4")
    assert json.loads(found[0][0]) == {"id": 1}
    assert json.loads(found[0][1])["after"] == full | {"zero": 0}
    nothing = {"name": None, "at": None, "price": None, "zero": 0, "data": ""}
    assert json.loads(found[1][1])["after"] == {"id": 2} | nothing
