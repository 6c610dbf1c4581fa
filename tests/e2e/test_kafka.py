"""The export to a Kafka broker: events, order, tombstones, repeats after a crash, no broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import ROOT
from tests.e2e.servers import dbt, kafka_broker

THINGS = """
{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['id'],
    tblproperties={'delta.enableChangeDataFeed': 'true'},
    post_hook="delete from {{ this }} where id in (" ~ var('gone', '0') ~ ")"
) }}
select * from values {{ var('things', "(1, 'a')") }} as v (id, name)
"""
CHANGES = """
{{ config(materialized='incremental', incremental_strategy='merge') }}
{{ cdc.changelog(ref('things')) }}
"""
EXPORTED = """
from dbt_spark_cdc.export import to_kafka

def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    log = to_kafka(dbt, session, dbt.ref("things_events"), dbt.config.get("export_topic"))
    if dbt.config.get("dies"):
        raise RuntimeError("power cut")
    return log
"""
RECEIVED = """
def model(dbt, session):
    dbt.config(materialized="table", file_format="delta")
    topic = session.read.format("kafka").options(
        **{"kafka.bootstrap.servers": session.conf.get("spark.cdc.kafka.bootstrap.servers")},
        subscribe="things", includeHeaders="true",
    )
    header = "cast(filter(headers, h -> h.key = '{0}')[0].value as string)"
    return topic.load().selectExpr(
        "cast(key as string) as key", "cast(value as string) as value", "partition", "offset",
        f"cast({header.format('commit_version')} as int) as version",
        f"cast({header.format('position')} as int) as position",
    )
"""
CONFIG = """
models:
  - name: things_exported
    config: {export_topic: things, dies: "{{ var('dies', false) }}"}
"""
SECRET = "not-to-be-shown"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose changes go to Kafka; it needs a profile."""
    folder = tmp_path / "project"
    config = {
        "name": "out",
        "profile": "out",
        "models": {"out": {"+file_format": "delta"}},
        "dispatch": [{"macro_namespace": "dbt", "search_order": ["out", "cdc", "dbt"]}],
    }
    files = {
        "dbt_project.yml": yaml.safe_dump(config),
        "models/things.sql": THINGS,
        "models/things_changes.sql": CHANGES,
        "models/things_events.sql": "{{ cdc.debezium_json(ref('things_changes')) }}",
        "models/things_exported.py": EXPORTED,
        "models/received.py": RECEIVED,
        "models/config.yml": CONFIG,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "cdc").symlink_to(ROOT)
    return folder


def write_profile(folder: Path, port: int) -> None:
    settings = {
        "spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "spark.cdc.kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "spark.cdc.kafka.max.block.ms": 5000,
        # Ignored without SASL, and in no log.
        "spark.cdc.kafka.sasl.jaas.config": SECRET,
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": 2,
    }
    target = {"type": "sparkcdc", "schema": "out", "server_side_parameters": settings}
    profile = {"out": {"target": "local", "outputs": {"local": target}}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))


def test_changes_reach_a_broker(project: Path, tmp_path: Path, spark: Any) -> None:
    def received() -> list[Any]:
        table = spark.sql(f"select * from delta.`{project}/warehouse/out.db/received`")
        return [row.asDict() for row in table.orderBy("partition", "offset").collect()]

    def run(*selected: str, **variables: Any) -> str:
        arguments = ("--select", *selected, "--vars", json.dumps(variables))
        return dbt(project, "run", "--quiet", *arguments)

    broker = tmp_path / "kafka"
    broker.mkdir()
    with kafka_broker(broker) as port:
        write_profile(project, port)
        run("+things_exported", things="(1, 'a'), (2, 'ü'), (3, 'c')")
        # The broker has the events, and the checkpoint is not written.
        with pytest.raises(AssertionError, match="power cut"):
            run("+things_exported", things="(1, 'b'), (4, 'd')", gone="2", dies=True)
        run("things_exported")
        run("things_exported", "received")
        sent = received()

    by_key: dict[str, list[dict[str, Any]]] = {}
    for message in sent:
        by_key.setdefault(message["key"], []).append(message)
    assert by_key.keys() == {f'{{"id":{number}}}' for number in (1, 2, 3, 4)}
    for messages in by_key.values():
        assert len({message["partition"] for message in messages}) == 1
        # As a consumer drops repeats: what is not above the highest position is known.
        news, repeats, highest = [], 0, (-1, -1)
        for message in messages:
            at = (message["version"], message["position"])
            if at > highest:
                highest = at
                news.append(message["value"] and json.loads(message["value"])["op"])
            else:
                repeats += 1
        key = json.loads(messages[0]["key"])["id"]
        assert news == {1: ["c", "u"], 2: ["c", "d", None], 3: ["c"], 4: ["c"]}[key]
        assert repeats == {1: 1, 2: 2, 3: 0, 4: 1}[key]
    [update] = [json.loads(m["value"]) for m in by_key['{"id":1}'] if m["value"]][1:2]
    assert (update["before"]["name"], update["after"]["name"]) == ("a", "b")

    # The broker is gone: the events stay where they are, and the error says so without secrets.
    with pytest.raises(AssertionError) as gone:
        run("+things_exported", things="(9, 'z')")
    said = str(gone.value)
    assert f"Kafka at 127.0.0.1:{port} has not taken all events" in said, said
    logs = [file.read_text(errors="replace") for file in (project / "logs").iterdir()]
    assert not any(SECRET in text for text in [said, *logs])
