"""Landing from a Kafka broker: each message once, through kills and lost messages, to tables."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import ROOT
from tests.e2e.servers import KafkaClient, WarmDbt, dbt, kafka_broker

KILLS = max(4, int(float(os.environ.get("MINUTES", "0"))))
SEED = int(os.environ.get("KILL_SEED", "20261124"))
LIMIT_BYTES = 3 * 1024**2
WAIT_SECONDS = 900
SECRET = "not-to-be-shown"

MODEL = """
from dbt_spark_cdc.topics import land

def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    return land(
        dbt,
        session,
        topics=dbt.config.get("topics"),
        raw_table=dbt.config.get("raw_table"),
        messages_a_batch=dbt.config.get("messages_a_batch"),
        accepted_losses=dbt.config.get("accepted_losses"),
        registry=dbt.config.get("registry"),
    )
"""
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
CUSTOMERS = "shop.public.customers"
ORDERS = "shop.public.orders"
# Items and stock share this one.
ALL = "shop.all"
HEADER = "get(filter(headers, h -> h.key = '__debezium.oldkey'), 0).value"
SOURCES: dict[str, Any] = {
    "sources": [
        {
            "name": "shop",
            "schema": "landed",
            "config": {
                "meta": {
                    "cdc": {
                        "format": "debezium",
                        "landed": True,
                        "message_key": "key",
                        "old_key": HEADER,
                    }
                }
            },
            "tables": [
                {
                    "name": name,
                    "identifier": "messages",
                    "config": {"meta": {"cdc": {"keys": ["id"]} | options}},
                    "columns": [
                        {"name": "id", "data_type": "int"},
                        {"name": "name", "data_type": "string"},
                    ],
                }
                for name, options in {
                    "customers": {},
                    "orders": {},
                    "items": {"where": f"topic = '{ALL}'", "source_table": "public.items"},
                    "stock": {"where": f"topic = '{ALL}'", "source_table": "public.stock"},
                }.items()
            ],
        }
    ]
}
TABLES = ("customers", "orders", "items", "stock")
STAGING = (
    "-- depends_on: {{{{ ref('messages') }}}}\n{{{{ cdc.{macro}(source('shop', '{table}')) }}}}"
)
FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}}}
{{{{ cdc.current(ref('{table}_history')) }}}}
"""


def write_project(folder: Path, port: int, packages: str = CONNECTOR, **config: Any) -> None:
    """A project with the landing model alone."""
    settings = {
        "spark.jars.packages": packages,
        "spark.cdc.kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "spark.cdc.kafka.default.api.timeout.ms": 6000,
        "spark.cdc.kafka.request.timeout.ms": 3000,
        # Ignored without SASL, and in no log.
        "spark.cdc.kafka.sasl.jaas.config": SECRET,
        # Used where the model has a registry.
        "spark.cdc.registry.user": "landing",
        "spark.cdc.registry.password": SECRET,
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.codegen.wholeStage": False,
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": False,
    }
    target = {
        "type": "sparkcdc",
        "schema": "out",
        "threads": 2,
        "server_side_parameters": settings,
    }
    files: dict[str, Any] = {
        "dbt_project.yml": {
            "name": "out",
            "profile": "out",
            "flags": {"send_anonymous_usage_stats": False},
            "models": {"+file_format": "delta"},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["out", "cdc", "dbt"]}],
            "on-run-start": ["{{ cdc.validate() }}", "{{ var('first', 'select 1') }}"],
        },
        "profiles.yml": {"out": {"target": "local", "outputs": {"local": target}}},
        "models/messages.py": MODEL,
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (folder / name).write_text(text)
    configure(folder, **config)
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "cdc").symlink_to(ROOT)


def configure(folder: Path, **config: Any) -> None:
    """The configuration of the landing model."""
    model = {"name": "messages", "config": {"raw_table": "landed.messages"} | config}
    (folder / "models" / "messages.yml").write_text(yaml.safe_dump({"models": [model]}))


def add_tables(folder: Path) -> None:
    """The staging models, histories, final tables and quarantines of all tables."""
    histories = [
        {
            "name": f"{table}_history",
            "relation": f"ref('stg_{table}')",
            "config": {"strategy": "cdc.scd2", "unique_key": ["id"], "file_format": "delta"},
        }
        for table in TABLES
    ]
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / "all.yml").write_text(yaml.safe_dump({"snapshots": histories}))
    models = folder / "models"
    (models / "sources.yml").write_text(yaml.safe_dump(SOURCES))
    for table in TABLES:
        (models / f"stg_{table}.sql").write_text(STAGING.format(macro="events", table=table))
        (models / f"{table}.sql").write_text(FINAL.format(table=table))
    for table in ("customers", "items"):
        bad = models / f"{table}_quarantine.sql"
        bad.write_text(
            "{{ config(materialized='table') }}\n" + STAGING.format(macro="quarantine", table=table)
        )


class Tables:
    """The tables of a project, read in the process of the test."""

    def __init__(self, spark: Any, project: Path) -> None:
        self.spark, self.warehouse = spark, project / "warehouse"

    def rows(self, table: str, columns: str, rest: str = "") -> list[tuple[Any, ...]]:
        schema, _, name = table.rpartition(".")
        place = self.warehouse / f"{schema or 'out'}.db" / name
        found = self.spark.sql(f"select {columns} from delta.`{place}` {rest}").collect()
        return [tuple(row) for row in found]

    def messages(self) -> Counter[Any]:
        """All messages that were landed, as they were sent."""
        columns = (
            "topic, coalesce(key_bytes, cast(key as binary)),"
            " coalesce(value_bytes, cast(value as binary)),"
            " transform(headers, h -> concat(h.key, '=', cast(h.value as string)))"
        )
        found = self.rows("landed.messages", columns)
        return Counter(
            (topic, _bytes(key), _bytes(value), tuple(headers or ()))
            for topic, key, value, headers in found
        )


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)


class Sender:
    """Sends messages and remembers them."""

    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.sent: Counter[Any] = Counter()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> None:
        key, value = ((c.encode() if isinstance(c, str) else c) for c in (key, value))
        self.client.send(topic, value, key, partition, headers)
        shown = tuple(f"{name}={text}" for name, text in (headers or {}).items())
        self.sent[(topic, key, value, shown)] += 1

    def change(
        self,
        topic: str,
        op: str,
        lsn: int,
        row: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a change as Debezium does, a delete with the tombstone behind it."""
        event = {
            "before": row if op == "d" else None,
            "after": None if op == "d" else row,
            "source": {
                "connector": "postgresql",
                "schema": "public",
                "table": row.get("table", topic.rpartition(".")[2]),
                "ts_ms": 1_700_000_000_000 + lsn,
                "lsn": lsn,
            },
            "op": op,
        }
        key = json.dumps({"id": row["id"]})
        self.send(topic, json.dumps(event), key, headers)
        if op == "d":
            self.send(topic, None, key)


@pytest.fixture
def broker_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kafka"
    folder.mkdir()
    return folder


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Any]:
    """Starts dbt in a process that lasts as long as the test."""
    started: list[WarmDbt] = []

    def start() -> WarmDbt:
        started.append(WarmDbt(tmp_path / "project"))
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_topics_become_tables(tmp_path: Path, broker_folder: Path, spark: Any) -> None:
    project = tmp_path / "project"
    tables = Tables(spark, project)

    def current(table: str) -> list[tuple[Any, ...]]:
        return sorted(tables.rows(table, "id, name"))

    with kafka_broker(broker_folder) as port:
        client = KafkaClient(broker_folder, port)
        sender = Sender(client)
        for topic, partitions in {CUSTOMERS: 3, ORDERS: 1, ALL: 2, "other.orders": 1}.items():
            client.create(topic, partitions)
        for number in range(1, 13):
            sender.change(CUSTOMERS, "c", number, {"id": number, "name": f"c{number}"})
        sender.change(CUSTOMERS, "u", 20, {"id": 2, "name": "two"})
        sender.change(CUSTOMERS, "d", 21, {"id": 3, "name": "c3"})
        # A row whose key changes: a delete of the old key and a create of the new one.
        lsn, old, new = 22, {"id": 4, "name": "c4"}, {"id": 40, "name": "c4"}
        sender.change(CUSTOMERS, "d", lsn, old, {"__debezium.newkey": '{"id": 40}'})
        sender.change(CUSTOMERS, "c", lsn, new, {"__debezium.oldkey": '{"id": 4}'})
        # Messages of somebody else, and one that is no text.
        sender.send(CUSTOMERS, "hello")
        sender.send(CUSTOMERS, b'{"op": "\xff\xfe"}', b"\x00\xff")
        sender.change(ORDERS, "c", 30, {"id": 1, "name": "first"})
        for table in ("items", "stock"):
            sender.change(ALL, "c", 31, {"id": 1, "name": table, "table": table})
        client.flush()
        client.send("other.orders", "not to be landed")
        client.flush()
        client.close()
        write_project(project, port, topics=r"shop\..*", messages_a_batch=5)
        add_tables(project)
        dbt(project, "build", "--quiet")
        assert tables.messages() == sender.sent
        batches = tables.rows("landed.messages", "_batch, count(*)", "group by 1 order by 1")
        assert max(size for _, size in batches) <= 5
        assert [number for number, _ in batches] == list(range(len(batches)))
        logged = tables.rows("messages", "sum(messages), count(distinct _batch)")
        assert logged == [(sender.sent.total(), len(batches))]
        names = {number: f"c{number}" for number in range(1, 13)} | {2: "two", 40: "c4"}
        first = sorted((n, name) for n, name in names.items() if n not in (3, 4))
        assert current("customers") == first
        assert current("orders") == [(1, "first")]
        assert (current("items"), current("stock")) == ([(1, "items")], [(1, "stock")])
        bad = tables.rows("customers_quarantine", "_reason, _origin")
        assert sorted(reason for reason, _ in bad) == [
            "unreadable payload",
            "value is not valid UTF-8",
        ], bad
        assert all(re.fullmatch(rf"{re.escape(CUSTOMERS)}/\d:\d+", origin) for _, origin in bad)
        assert not tables.rows("items_quarantine", "*")

    # The broker starts again; there are more partitions, and `cdc watch` lands and builds.
    with kafka_broker(broker_folder, port):
        client = KafkaClient(broker_folder, port)
        sender.client = client
        client.add_partitions(ORDERS, 4)
        command = "from dbt_spark_cdc.cli import main; main()"
        watch = ["watch", "--first", "messages"]
        watch += ["--select", "stg_customers+", "--select", "stg_orders+"]
        with (tmp_path / "watch.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", command, *watch],
                cwd=project,
                env=os.environ | {"DBT_PROFILES_DIR": str(project)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            sender.change(CUSTOMERS, "c", 50, {"id": 3, "name": "again"})
            sender.change(CUSTOMERS, "d", 51, {"id": 40, "name": "c4"})
            for number in range(2, 9):
                sender.change(ORDERS, "c", 60 + number, {"id": number, "name": f"o{number}"})
            client.flush()
            orders = [(1, "first")] + [(number, f"o{number}") for number in range(2, 9)]
            end = time.monotonic() + WAIT_SECONDS
            while current("orders") != orders and time.monotonic() < end:
                assert process.poll() is None, (tmp_path / "watch.log").read_text()
                time.sleep(1)
            sender.change(ORDERS, "u", 90, {"id": 1, "name": "last"})
            client.flush()
            while current("orders")[0] != (1, "last") and time.monotonic() < end:
                time.sleep(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0, (tmp_path / "watch.log").read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            client.close()
    assert current("orders") == [(1, "last"), *orders[1:]]
    expected = {row[0]: row[1] for row in first} | {3: "again"}
    del expected[40]
    assert current("customers") == sorted(expected.items())
    assert tables.messages() == sender.sent
    _check_order(tables)


def _check_order(tables: Tables) -> None:
    """Within a partition, later batches have higher offsets, and no offset is there twice."""
    columns = "topic, _topic_id, partition, _batch, min(offset), max(offset), count(*)"
    found = tables.rows("landed.messages", columns, "group by 1, 2, 3, 4 order by 1, 2, 3, 4")
    before: tuple[Any, ...] | None = None
    for row in found:
        assert row[6] == row[5] - row[4] + 1, row
        if before is not None and before[:3] == row[:3]:
            assert row[4] == before[5] + 1, (before, row)
        before = row


def test_each_message_once_through_kills_and_losses(
    tmp_path: Path, broker_folder: Path, spark: Any, warm: Any
) -> None:
    project = tmp_path / "project"
    tables = Tables(spark, project)
    moments = random.Random(SEED)
    common = {"topics": ["a", "b"]}
    with kafka_broker(broker_folder) as port:
        client = KafkaClient(broker_folder, port)
        sender = Sender(client)
        client.create("a", 3)
        client.create("b", 1)
        write_project(project, port, messages_a_batch=100, **common)

        def send(topic: str, number: int) -> None:
            for _ in range(number):
                count = sender.sent.total()
                partition = count % 3 if topic == "a" else 0
                sender.send(topic, f"message {count}", partition=partition)
            client.flush()

        for kill in range(KILLS):
            send("a", 3000)
            send("b", 500)
            _kill_a_run(project, moments.random() * 3)
            print(f"kill {kill}: {_commits(project)} commits")
        configure(project, **common)
        run = warm()
        run("run", "--select", "messages")
        assert tables.messages() == sender.sent
        _check_order(tables)

        # A run that finds the disk full lands nothing of its batch; the next one makes up for it.
        run.close()
        letters = "".join(moments.choices("abcdefghijklmnopqrstuvwxyz", k=60_000))
        for number in range(100):
            sender.send("b", letters[number * 100 :] + letters[: number * 100])
        for _ in range(100):
            sender.send("b", moments.randbytes(60_000))
        client.flush()
        status, said = _run(project, limit=True)
        assert status == 1, said
        assert "File too large" in said, said
        assert "Nothing of the batch that failed is in the raw table" in said, said
        run = warm()
        run("run", "--select", "messages")
        assert tables.messages() == sender.sent

        # Messages that retention has removed before they were landed.
        end = sum(n for (topic, *_), n in sender.sent.items() if topic == "b")
        landed = Counter(sender.sent)
        send("b", 10)
        client.delete_before("b", 0, end + 8)
        said = run("run", "--select", "messages", fails=True)
        assert f"partition b/0 begins with offset {end + 8}" in said, said
        assert tables.messages() == landed
        common["accepted_losses"] = _accepted(said)
        assert common["accepted_losses"] == [f"b/0 after {end - 1}"]
        configure(project, **common)
        run("run", "--select", "messages")
        gone = [key for key in sender.sent if key not in landed][:8]
        for key in gone:
            del sender.sent[key]
        assert tables.messages() == sender.sent

        # A topic that was created again, and is longer than the former one was.
        client.delete("b")
        client.create("b", 1)
        before = sender.sent.total()
        for _ in range(end + 100):
            sender.send("b", "another")
        client.flush()
        said = run("run", "--select", "messages", fails=True)
        assert "topic b was deleted and created again" in said, said
        assert tables.messages().total() == before
        configure(project, topics=["a", "b"], accepted_losses=_accepted(said))
        run("run", "--select", "messages")
        assert tables.messages() == sender.sent
        # What was accepted is landed: nothing of it has to stay in the configuration.
        common = {"topics": ["a", "b"]}
        configure(project, **common)
        send("a", 3)
        run("run", "--select", "messages")
        assert tables.messages() == sender.sent

        # The raw table is dropped: what the topics have is landed again, in later batches.
        [(last,)] = tables.rows("landed.messages", "max(_batch)")
        run("run", "--select", "messages", "--vars", "{first: drop table landed.messages}")
        still = Counter({k: n for k, n in sender.sent.items() if k[0] == "a" or k[2] == b"another"})
        assert tables.messages() == still
        [(first,)] = tables.rows("landed.messages", "min(_batch)")
        assert first > last
        # ... and what they do not have any more is reported.
        client.delete_before("a", 0, 5)
        drop = ["--vars", "{first: drop table landed.messages}"]
        said = run("run", "--select", "messages", *drop, fails=True)
        assert "partition a/0 begins with offset 5, and the raw table ends before offset 0" in said
        configure(project, **common, accepted_losses=_accepted(said))
        run("run", "--select", "messages")
        assert tables.messages().total() == still.total() - 5
        client.close()

    # The broker is gone.
    said = run("run", "--select", "messages", fails=True)
    assert f"Kafka at 127.0.0.1:{port} could not be asked for its topics" in said, said
    with kafka_broker(broker_folder, port):
        client = KafkaClient(broker_folder, port)
        sender.client = client
        send("a", 4)
        run("run", "--select", "messages")
        assert tables.messages().total() == still.total() - 5 + 4
        client.close()
    logs = [file.read_text(errors="replace") for file in (project / "logs").iterdir()]
    assert not any(SECRET in text for text in [said, *logs])


def _commits(project: Path) -> int:
    log = project / "warehouse" / "landed.db" / "messages" / "_delta_log"
    return len(list(log.glob("*.json"))) if log.is_dir() else 0


def _kill_a_run(project: Path, after: float) -> None:
    """Kills a run, JVM and all, some seconds after it has landed its first batch."""
    before = _commits(project)
    process = _start(project)
    end = time.monotonic() + WAIT_SECONDS
    while _commits(project) <= before + 1 and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(after)
    assert process.poll() is None, process.communicate()[0]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _run(project: Path, limit: bool = False) -> tuple[int, str]:
    process = _start(project, limit)
    said = process.communicate(timeout=WAIT_SECONDS)[0]
    return process.returncode, said


def _start(project: Path, limit: bool = False) -> subprocess.Popen[str]:
    arguments = ["run", "--select", "messages"]
    return subprocess.Popen(
        [sys.executable, "-c", "from dbt.cli.main import cli; cli()", *arguments],
        cwd=project,
        env=os.environ | {"DBT_PROFILES_DIR": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_limit_files if limit else None,
    )


def _limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))


def _accepted(said: str) -> Sequence[str]:
    """What an error tells to write to the configuration."""
    [line] = re.findall(r"accepted_losses: (\[.*\])", said)
    words: Sequence[str] = json.loads(line)
    return words
