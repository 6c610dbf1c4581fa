"""Tables that start from a snapshot: nothing is missing and nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history.tables import FINAL, append, histories, rows
from tests.functional.oracle import Event, Version
from tests.functional.oracle import histories as fold_to_histories
from tests.functional.scenarios import BATCHES, Arrival, draw_scenarios, pack

pytestmark = pytest.mark.extended

SCENARIOS = 150
# Positions go from 100 to 4001. One stream begins at START, the snapshot is at POSITION.
START, POSITION = 1000, 2000

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config:
      meta:
        cdc:
          format: flagged
          keys: [scenario, id]
          operation: op
          sequence_by: position
          ignore_null_updates: [b]
          arrival: batch
          bootstrap: {position: 2000}
    tables:
      # Two tables of one raw table, whose stream overlaps the snapshot.
      - name: overlapping
        identifier: changes
        config: {meta: {cdc: {bootstrap: {from: "{{ target.schema }}.state"}}}}
        columns: &columns
          - {name: scenario, data_type: int}
          - {name: id, data_type: int}
          - {name: a, data_type: string}
          - {name: b, data_type: string}
      - name: alone
        identifier: changes
        config:
          meta: {cdc: {history: false, bootstrap: {from: "{{ target.schema }}.state"}}}
        columns: *columns
      # Its stream begins after the snapshot, and is read whole in each run.
      - name: following
        identifier: later_changes
        config:
          meta:
            cdc:
              arrival: null
              bootstrap: {from: "{{ target.schema }}.state", stream_from: 2000}
        columns: *columns
"""
SNAPSHOTS = """
version: 2
snapshots:
  - name: overlapping_history
    relation: ref('stg_overlapping')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
  - name: following_history
    relation: ref('stg_following')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
"""
READ = {
    "overlapping": "overlapping_history",
    "alone": "stg_alone",
    "following": "following_history",
}
RAW = "scenario int, id int, position int, op string, a string, b string, batch int"


def untied(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Leaves out what would share its position with another event of its key."""
    seen = set()
    for arrival in arrivals:
        at = arrival.event[:3]
        if at not in seen:
            seen.add(at)
            yield arrival


def operate(operation: str = "cdc_bootstrap", **args: Any) -> str:
    return run_dbt_and_capture(["run-operation", operation, "--args", json.dumps(args)])[1]


def refused(**args: Any) -> str:
    """What cdc_bootstrap says when it refuses."""
    command = ["run-operation", "cdc_bootstrap", "--args", json.dumps(args)]
    return run_dbt_and_capture(command, expect_pass=False)[1]


class TestOneAnswer:
    """Snapshot and stream give what all events give from the snapshot on."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SOURCES}
        for name, read in READ.items():
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            final = FINAL.replace("['id']", "['scenario', 'id']")
            models[f"{name}_final.sql"] = final.format(read=read)
            history = "stg_alone" if name == "alone" else f"{name}_history"
            call = f"cdc.audit(ref('{history}'), ref('{name}_final'))"
            models[f"{name}_audit.sql"] = f"{{{{ {call} }}}}"
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    def test_any_overlap_any_order(self, package: None, project: Any, spark: Any) -> None:
        arrivals = list(untied(pack(draw_scenarios(SCENARIOS, start=20261125))))
        events = {arrival.event for arrival in arrivals}
        before = fold_to_histories(event for event in events if event.position <= POSITION)
        living = [version for version in before if version.seq_end is None]
        assert len(living) > SCENARIOS / 3
        state = f"{project.test_schema}.state"
        append(
            spark,
            state,
            [version[:4] for version in living],
            "scenario int, id int, a string, b string",
        )
        streams = {
            "changes": [one for one in arrivals if one.event.position > START],
            "later_changes": [one for one in arrivals if one.event.position > POSITION],
        }
        images = {Event(v.scenario, v.id, POSITION, "I", v.a, v.b) for v in living}
        # All but the first batch arrive at once.
        for batches in (range(1), range(1, BATCHES)):
            batch = batches[-1]
            for name, stream in streams.items():
                arriving = [
                    (*one.event, at) for one in stream for at in one.batches if at in batches
                ]
                append(spark, f"{project.test_schema}.{name}", arriving, RAW)
            if batch == 0:
                said = operate()
                assert said.count(f"starts from {len(living)} rows at {POSITION}") == 3
            run_dbt(["build"])
            arrived = {
                name: {one.event for one in stream if min(one.batches) <= batch}
                for name, stream in streams.items()
            }
            for name in READ:
                stream = arrived["later_changes" if name == "following" else "changes"]
                expected = fold_to_histories(
                    images | {event for event in stream if event.position > POSITION}
                )
                self.check(project, name, expected)
                if batch > 0:
                    self.check_audit(project, name, len(stream) + len(images))
        assert len([e for e in arrived["changes"] if e.position <= POSITION]) > SCENARIOS / 3
        # A batch asks the copy for the position, and reads no row of it.
        assert self.scans(project, "_arrived > 1") == 1 and self.scans(project, "true") == 2
        # The rows are still there, and are read again.
        versions = rows(project, "select * from {s}.overlapping_history order by all")
        read = ["+overlapping_history", "+alone_final"]
        run_dbt(["build", "--full-refresh", "--select", *read])
        assert rows(project, "select * from {s}.overlapping_history order by all") == versions
        self.check(project, "alone", expected)

    def scans(self, project: Any, where: str) -> int:
        """How often the plan of a query of the staging view scans the copy."""
        query = f"explain select * from {{s}}.stg_overlapping where {where}"
        return str(rows(project, query)[0][0]).count("cdc_bootstrap__app_overlapping[")

    def check(self, project: Any, name: str, expected: set[Version]) -> None:
        if name != "alone":
            found = rows(
                project,
                "select scenario, id, a, b, _seq, _seq_end, _cdc_created_at, _cdc_seq"
                f" from {{s}}.{name}_history",
            )
            assert len(found) == len(set(found))
            assert {Version(*row) for row in found} == expected, name
        living = " where _cdc_deleted_at is null" if name == "alone" else ""
        found = rows(
            project,
            f"select scenario, id, a, b, _cdc_created_at, _cdc_seq from {{s}}.{name}_final{living}",
        )
        assert len(found) == len(set(found))
        wanted = {(*v[:4], v.created, v.changed) for v in expected if v.seq_end is None}
        assert set(found) == wanted, name

    def check_audit(self, project: Any, name: str, least: int) -> None:
        read, explained, left_out = rows(
            project,
            "select events_read, events_applied + events_duplicate + events_superseded"
            f" + events_quarantined, events_left_out from {{s}}.{name}_audit",
        )[0]
        assert read == explained, name
        assert read + left_out >= least
        assert (left_out > 0) == (name != "following")


FORMATS = """
version: 2
sources:
  - name: shop
    schema: "{{ target.schema }}"
    tables:
      # JSON; a snapshot in CSV, whose values are text; masks; values that do not fit; no history.
      - name: customers
        config:
          meta:
            cdc:
              format: debezium
              keys: [id]
              arrival: nr
              message_key: msg_key
              history: false
              mask: {mail: hash, phone: drop}
              renames: {mail: email}
              bootstrap:
                from: {format: csv, path: "{{ env_var('BOOTSTRAP_FOLDER') }}/customers"}
                position: [100, 100, 0]
                time: "timestamp '2026-01-31 12:00:00Z'"
                columns: {blob: "unhex(substr(blob, 3))"}
        columns: &customer_columns
          - {name: id, data_type: int}
          - {name: name, data_type: string}
          - {name: mail, data_type: string}
          - {name: phone, data_type: string}
          - {name: worth, data_type: "decimal(10,2)"}
          - {name: born, data_type: date}
          - {name: blob, data_type: binary}
      # Rows that are followed through their keys; a snapshot in Parquet, read in two parts.
      - name: orders
        config:
          meta:
            cdc:
              format: wal2json_v2
              keys: [id]
              arrival: nr
              key_changes: true
              bootstrap:
                from: {format: parquet, path: "{{ env_var('BOOTSTRAP_FOLDER') }}/orders"}
                position: [at, lsn]
                time: at
                columns: {id: "`order number`"}
        columns:
          - {name: id, data_type: int}
          - {name: state, data_type: string}
      # No key: equal rows are as many rows.
      - name: visits
        config:
          meta:
            cdc:
              format: flagged
              keys: []
              sequence_by: [day, nr]
              apply_as_deletes: "false"
              arrival: batch
              history: false
              bootstrap:
                from: "{{ target.schema }}.visits_export"
                position: ["date '2026-01-31'", 9]
        columns:
          - {name: visitor, data_type: string}
          - {name: pages, data_type: "array<int>"}
      # A database, through JDBC.
      - name: stock
        config:
          meta:
            cdc:
              format: change_event
              keys: [sku]
              arrival: nr
              bootstrap:
                from:
                  format: jdbc
                  options:
                    url: "jdbc:derby:memory:bootstrap"
                    dbtable: "(select s.*, 7 as at_change from stock s) as snapshot"
                position: at_change
                columns: {amount: on_hand}
        columns:
          - {name: sku, data_type: string}
          - {name: amount, data_type: int}
"""
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_orders"))
"""
CSV = (
    "id,name,email,phone,worth,born,blob\n"
    '1,"Ann ""Nan"", Lee\nsecond line",a@x,1,12.5,1999-12-31,\\x00ff\n'
    '2,"",,2,1.234,2000-02-29,\n'
    "3,Old,c@x,3,7.00,2001-01-01,\\x\n"
    "4,\\back\\slash,d@x,4,0,,\\x01\n"
    '5,"",,5,1,,\n'  # empty text, which is not NULL
)


def debezium(op: str, lsn: int, before: Any = None, after: Any = None) -> str:
    source = {"lsn": lsn, "ts_ms": 1_770_000_000_000 + lsn, "schema": "shop", "table": "customers"}
    return json.dumps({"op": op, "before": before, "after": after, "source": source})


def wal2json(action: str, second: int, lsn: str, row: Any = None, old: Any = None) -> str:
    event = {"action": action, "timestamp": f"2026-01-31 12:00:{second:02}+00", "lsn": lsn}
    for name, values in (("columns", row), ("identity", old)):
        if values is not None:
            event[name] = [{"name": key, "value": value} for key, value in values.items()]
    return json.dumps(event)


class TestFormats:
    """Snapshots of every kind before streams of every kind."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        with pytest.MonkeyPatch.context() as patch:
            folder = tmp_path_factory.mktemp("exports")
            patch.setenv("BOOTSTRAP_FOLDER", str(folder))
            yield folder

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        names = ("customers", "orders", "visits", "stock")
        return {
            "sources.yml": FORMATS,
            **{f"stg_{n}.sql": f"{{{{ cdc.events(source('shop', '{n}')) }}}}" for n in names},
            "bad_customers.sql": "{{ cdc.quarantine(source('shop', 'customers')) }}",
            "orders_keys.py": KEYS,
            "customers_final.sql": FINAL.format(read="stg_customers"),
            "orders_final.sql": FINAL.format(read="orders_history"),
            "visits_final.sql": FINAL.replace("'id'", "'_row_id'").format(read="stg_visits"),
            "stock_final.sql": FINAL.replace("'id'", "'sku'").format(read="stock_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        file = histories(orders_history="orders_keys", stock_history="stg_stock")
        stock = file["snapshots.yml"].partition("  - name: stock_history")
        text = stock[0] + stock[1] + stock[2].replace("unique_key: [id]", "unique_key: [sku]")
        return {"snapshots.yml": text}

    def test_all(self, folder: Path, package: None, project: Any, spark: Any) -> None:
        schema = project.test_schema
        (folder / "customers").mkdir()
        (folder / "customers" / "1.csv").write_text(CSV)
        (folder / "orders").mkdir()
        at = pa.array([1_769_860_800_000_000, 1_769_860_810_000_000, 1_769_860_810_000_000])
        orders = {
            "order number": pa.array([1, 2, 3]),
            "state": ["new", "paid", "new"],
            "at": at.cast(pa.timestamp("us", "UTC")),
            "lsn": pa.array([5, 5, 5]),
        }
        pq.write_table(pa.table(orders), folder / "orders" / "1.parquet")
        derby = spark._jvm.java.sql.DriverManager.getConnection(
            "jdbc:derby:memory:bootstrap;create=true"
        )
        statement = derby.createStatement()
        statement.execute("create table stock (sku varchar(10) primary key, on_hand int)")
        statement.execute("insert into stock values ('a', 1), ('b', 2)")
        append(
            spark,
            f"{schema}.visits_export",
            [("ann", [1, 2]), ("ann", [1, 2]), ("bob", None)],
            "visitor string, pages array<int>",
        )

        messages = "value string, msg_key string, nr int"
        append(
            spark,
            f"{schema}.customers",
            [
                (debezium("d", 50, before={"id": 1}), None, 1),  # covered, as the next two
                (debezium("c", 60, after={"id": 9, "name": "gone since"}), None, 1),
                (debezium("u", 100, after={"id": 4, "worth": "no number"}), None, 1),
            ],
            messages,
        )
        append(
            spark,
            f"{schema}.orders",
            [
                (wal2json("U", 5, "0/9", {"id": 2, "state": "new"}, {"id": 1}), None, 1),
                (wal2json("I", 0, "0/1", {"id": 7, "state": "old"}), None, 1),  # covered
            ],
            messages,
        )
        append(
            spark,
            f"{schema}.visits",
            [("ann", [1, 2], "2026-01-31", 9, 1), ("eve", None, "2026-02-01", 1, 1)],
            "visitor string, pages array<int>, day string, nr int, batch int",
        )
        spark.sql(
            f"create table {schema}.stock (changeType string, timestamp bigint,"
            " columnNames array<string>, columnValues array<string>,"
            " oldKeyNames array<string>, oldKeyValues array<string>, nr int) using delta"
        )
        said = refused(source="shop")
        assert "shop.stock" in said and "the stream has no event yet" in said
        assert "shop.visits starts from 3 rows" in said  # what is sound is kept
        spark.sql(
            f"insert into {schema}.stock values"
            " ('delete', 7, null, null, array('sku'), array('a'), 1)"
        )
        said = operate()
        assert "shop.stock starts from 2 rows at 7" in said
        assert said.count("the snapshot was taken before") == 3
        statement.execute("drop table stock")  # the copy is enough
        run_dbt(["build"])

        customers = "select id, name, cast(worth as string), cast(born as string), hex(blob)"
        customers += " from {s}.customers_final where _cdc_deleted_at is null order by id"
        first = (1, 'Ann "Nan", Lee\nsecond line', "12.50", "1999-12-31", "00FF")
        third = (3, "Old", "7.00", "2001-01-01", "")
        fourth = (4, "\\back\\slash", "0.00", None, "01")
        fifth = (5, "", "1.00", None, None)
        assert rows(project, customers) == [first, third, fourth, fifth]
        hashed = rows(project, "select length(mail) from {s}.customers_final where id = 1")
        assert hashed == [(64,)]
        bad = rows(project, "select _reason, _payload, _origin from {s}.bad_customers")
        assert bad == [("column worth: 1.234 is not a decimal(10,2)", None, bad[0][2])]
        assert bad[0][2].startswith("snapshot of shop.customers, row ")
        # The lowest of the positions covers; later ones are those of their own rows.
        orders_now = "select id, state from {s}.orders_final order by id"
        assert rows(project, orders_now) == [(2, "paid"), (3, "new")]
        moved = rows(
            project,
            "select id, state, second(dbt_valid_from), second(dbt_valid_to) from {s}.orders_history"
            " where _entity_id = (select _entity_id from {s}.orders_history where id = 1)"
            " order by _seq",
        )
        assert moved == [(1, "new", 0, 5), (2, "new", 5, 10), (2, "paid", 10, None)]
        visits = rows(project, "select visitor, pages from {s}.visits_final order by visitor")
        assert [row[0] for row in visits] == ["ann", "ann", "bob", "eve"]
        stock = "select sku, amount from {s}.stock_final order by sku"
        assert rows(project, stock) == [("a", 1), ("b", 2)]

        append(
            spark,
            f"{schema}.customers",
            [
                (debezium("u", 101, after={"id": 2, "name": "two", "worth": "1.23"}), None, 2),
                (debezium("d", 99, before={"id": 3}), None, 2),  # covered, late
                (debezium("d", 102, before={"id": 4}), None, 2),
            ],
            messages,
        )
        models = ["stg_customers", "customers_final", "bad_customers"]
        run_dbt(["build", "--select", *models])
        assert rows(project, customers) == [first, (2, "two", "1.23", None, None), third, fifth]
        # A type that was too narrow: the rows of the snapshot are read again.
        declared = Path(project.project_root) / "models" / "sources.yml"
        declared.write_text(FORMATS.replace("decimal(10,2)", "decimal(12,3)"))
        run_dbt(["build", "--full-refresh", "--select", *models])
        assert rows(project, "select count(*) from {s}.bad_customers") == [(0,)]
        worth = rows(project, "select cast(worth as string) from {s}.customers_final where id = 2")
        assert worth == [("1.230",)]
        self.nothing_holds_what_is_masked(project)
        # A resolver looks at its checkpoint before Spark looks for the tables of its view.
        project.run_sql(f"drop table {schema}.cdc_bootstrap__shop_orders")
        build = run_dbt_and_capture(["build", "--select", "orders_keys"], expect_pass=False)[1]
        assert "shop.orders starts from a snapshot (`bootstrap`), which is not there" in build
        assert "dbt run-operation cdc_bootstrap" in build
        assert "was built from another snapshot" not in build

    def nothing_holds_what_is_masked(self, project: Any) -> None:
        for table in ("customers_final", "stg_customers", "bad_customers"):
            text = str(rows(project, f"select to_json(struct(*)) from {{s}}.{table}"))
            assert "a@x" not in text and "d@x" not in text, table


OPERATION = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    tables:
      - name: people
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              event_time: at
              operation: op
              arrival: batch
              bootstrap: {people}
        columns: &columns
          - {{name: id, data_type: int}}
          - {{name: name, data_type: string}}
      - name: pets
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              operation: op
              arrival: batch
              mask: {{name: hash}}
              bootstrap: {pets}
        columns: *columns
"""
# Another table of the same events.
MORE = """
      - name: {name}
        identifier: people
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              event_time: at
              operation: op
              arrival: batch
              bootstrap: {bootstrap}
        columns: *columns
"""
SOUND = {
    "from": "{{ target.schema }}.people_export",
    "position": "10",
    "time": "timestamp '2026-01-10 00:00:00Z'",
}
PETS = {"from": "{{ target.schema }}.people_export", "position": "10"}


class Operation:
    """A project of two tables that start from one snapshot."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": self.declared(SOUND, PETS),
            "stg_people.sql": "{{ cdc.events(source('app', 'people')) }}",
            "people_final.sql": FINAL.format(read="people_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(people_history="stg_people")

    @staticmethod
    def declared(people: dict[str, Any] | None, pets: dict[str, Any], **more: Any) -> str:
        given = {"people": json.dumps(people), "pets": json.dumps(pets)}
        text = OPERATION.format(**given)
        for name, bootstrap in more.items():
            text += MORE.format(name=name, bootstrap=json.dumps(bootstrap))
        return text

    @pytest.fixture(scope="class")
    def prepared(self, package: None, project: Any) -> Any:
        schema = project.test_schema
        for table in ("people", "pets"):
            project.run_sql(
                f"create table {schema}.{table} (id int, seq int, op string, name string,"
                " at timestamp, batch int) using delta"
            )
        project.run_sql(
            f"create table {schema}.people_export using delta as select * from values"
            " (1, 'ann', 10), (2, 'bob', 10), (3, 'cy', 12) as export (id, name, version)"
        )
        return project

    def declare(
        self, project: Any, people: dict[str, Any] | None, pets: Any = None, **more: Any
    ) -> None:
        """Declares the snapshots of the two tables, and of more of them by name."""
        text = self.declared(people, PETS if pets is None else pets, **more)
        write_file(text, project.project_root, "models", "sources.yml")

    def arrive(self, project: Any, batch: int, *events: tuple[int, int, str, str]) -> None:
        values = ", ".join(
            f"({key}, {seq}, '{op}', '{name}', timestamp '2026-01-01' + make_dt_interval({seq}),"
            f" {batch})"
            for key, seq, op, name in events
        )
        project.run_sql(f"insert into {project.test_schema}.people values {values}")

    def names(self, project: Any) -> list[Any]:
        return rows(project, "select id, name from {s}.people_final order by id")


class TestRefused(Operation):
    """What cdc_bootstrap refuses."""

    def test_declarations_are_refused_at_once(self, prepared: Any) -> None:
        self.declare(
            prepared,
            {
                "from": {"path": "x", "mode": "y", "options": {"password": "s3cret"}},
                "stream_from": {},
                "columns": {"nme": "name"},
                "when": "now",
            },
            {"from": {"format": "csv"}, "position": "name", "time": "now()", "columns": ["a"]},
        )
        said = refused()
        for problem in (
            "people (models/sources.yml): `bootstrap`: unknown option `when`. The options are",
            "unknown option `mode` of `from`. The options are format, path, schema, options.",
            "`from` has the format ``. Name one that Spark reads",
            "`options` of `from` has `password`, and dbt writes declarations to target/manifest",
            "no `position`. Name the position of the snapshot in the stream",
            "`stream_from` is `{}`. Write an SQL expression, or a list of them.",
            "no `time`. Events of this table have a time",
            "`columns` names the column `nme`, which is not declared.",
            "pets (models/sources.yml): `bootstrap`: `from` has no `path`.",
            "`time`, and events of this table have none. Remove it, or declare `event_time`.",
            "`columns` is `['a']`. Write `{<declared column>: <SQL expression>}`.",
            "`position` (name) reads the masked column `name`, and tables would show its value.",
        ):
            assert problem in said, problem
        assert "12 problem(s)" in said and "s3cret" not in said
        self.declare(prepared, {"from": []}, "yes")
        said = refused(source="app")
        assert "`bootstrap`: no `from`. Name a table or view" in said
        assert "`bootstrap` is `yes`. Write `{from: <relation or files>, position" in said
        self.declare(prepared, SOUND)
        said = refused(source="app", table="nobody")
        assert "no declared table app.nobody has a `bootstrap`. These have one: app.people" in said
        assert "`table: people` without `source`." in refused(table="people")

        meta = {"cdc": {"format": "flagged", "keys": ["id"], "sequence_by": "seq"}}
        meta["cdc"] |= {"operation": "op", "bootstrap": {"from": "a.b", "position": "1"}}
        table = {"config": {"meta": meta}, "columns": [{"name": "id", "data_type": "int"}]}
        names = {"eu": "shop_orders", "eu_shop": "orders"}
        twins = [
            {"name": source, "tables": [{"name": name, **table}]} for source, name in names.items()
        ]
        declared = yaml.safe_dump({"version": 2, "sources": twins})
        write_file(declared, prepared.project_root, "models", "twins.yml")
        said = refused()
        assert "eu.shop_orders and eu_shop.orders: they start from snapshots (`bootstrap`)" in said
        Path(prepared.project_root, "models", "twins.yml").unlink()

    def test_what_does_not_fit_is_refused_at_once(self, prepared: Any) -> None:
        schema = prepared.test_schema
        missing = f"(select name as person from {schema}.people_export)"
        prepared.run_sql(f"create view {schema}.keyless_export as select * from {missing}")
        self.declare(
            prepared,
            SOUND
            | {
                "position": "timestamp '2026-01-01'",
                "stream_from": ["1", "2"],
                "time": "7",
                "columns": {"name": "nmae"},
            },
            PETS | {"from": f"{schema}.nowhere"},
            birds=SOUND | {"from": f"{schema}.keyless_export"},
            bees=SOUND | {"from": {"format": "csv", "path": "/nowhere"}},
        )
        said = refused()
        for problem in (
            "`position` (timestamp '2026-01-01') cannot be compared with the `_seq` of the events",
            "`stream_from` has 2 part(s), and the `_seq` of the events is a int",
            "`time` (7) cannot be compared with the `_ts` of the events, a timestamp",
            "`columns` of `name` (nmae) cannot be computed from the snapshot's columns (id, name",
            "app.pets (models/sources.yml): `bootstrap`: `from` cannot be read. Name a table or"
            " files that this user may read. Spark says: [TABLE",
            "the snapshot has no key column `id`; it has person.",
            "the snapshot has no column `name`; it has person. Declare under `columns`",
            "`from` cannot be read. Name a table or files that this user may read. Spark says:"
            " [PATH_NOT_FOUND]",
        ):
            assert problem in said, problem
        assert "8 problem(s)" in said
        twice = f"select * from {schema}.people_export union all select 1, 'x', null"
        prepared.run_sql(f"create view {schema}.twice_export as {twice}")
        prepared.run_sql(
            f"create view {schema}.no_export as select * from {schema}.people_export where false"
        )
        self.declare(
            prepared,
            SOUND | {"from": f"{schema}.twice_export"},
            PETS | {"from": f"{schema}.no_export", "position": "version"},
            birds=SOUND | {"from": f"{schema}.twice_export", "position": "version"},
        )
        said = refused()
        assert "1 key(s) of the snapshot have several rows, such as {1}." in said
        assert "the snapshot has no rows, and so no position." in said
        assert "`position` is NULL in 1 of 4 rows." in said
        copies = f"show tables in {schema} like 'cdc_bootstrap*'"
        assert prepared.run_sql(copies, fetch="all") == []

    def test_a_gap_is_refused_with_the_positions(self, prepared: Any) -> None:
        self.arrive(prepared, 1, (4, 13, "I", "dan"), (2, 14, "D", ""))
        self.declare(prepared, SOUND, birds=SOUND | {"stream_from": 11})
        said = refused(source="app")
        for problem in (
            "the snapshot is at 10, and the stream begins after it, with an event at 13.",
            "the stream has no event yet. Events between them may be",
            "at 10, and the stream begins after it, at 11 (`stream_from`). Events between",
        ):
            assert problem in said, problem
        self.declare(prepared, SOUND | {"stream_from": 10})
        assert "app.people starts from 3 rows at 10" in operate(source="app", table="people")
        prepared.run_sql(f"drop table {prepared.test_schema}.cdc_bootstrap__app_people")


class TestTaken(Operation):
    """What happens around a snapshot that was taken, or should have been."""

    def test_a_call_that_died_is_repeated(self, prepared: Any) -> None:
        schema = prepared.test_schema
        copy = f"{schema}.cdc_bootstrap__app_people"
        self.declare(prepared, SOUND)
        covered = ((1, 9, "D", ""), (5, 8, "I", "eve"))
        self.arrive(prepared, 1, *covered, (4, 13, "I", "dan"), (2, 14, "D", ""))
        operate(source="app", table="people")
        # As it is between the two commits.
        prepared.run_sql(f"delete from {copy} where _cdc_part = 'position'")
        build = run_dbt_and_capture(["build"], expect_pass=False)[1]
        assert "is not complete, or was taken at another position" in build
        assert "app.people starts from 3 rows at 10" in operate(source="app", table="people")
        run_dbt(["build"])
        expected = [(1, "ann"), (3, "cy"), (4, "dan")]
        assert self.names(prepared) == expected
        copied = prepared.run_sql(f"describe history {copy}", fetch="all")
        assert "the snapshot was taken before, 3 rows at 10" in operate(
            source="app", table="people"
        )
        assert prepared.run_sql(f"describe history {copy}", fetch="all") == copied

        # Another position is another snapshot.
        self.declare(prepared, SOUND | {"position": "11"})
        assert "was taken before, at the position 10" in refused(source="app", table="people")
        build = run_dbt_and_capture(["build"], expect_pass=False)[1]
        assert "was built from another snapshot" in build
        # Neither is it left out.
        self.declare(prepared, None)
        build = run_dbt_and_capture(["build"], expect_pass=False)[1]
        assert "was built from another snapshot, and app.people now starts from none" in build
        assert self.names(prepared) == expected

    def test_a_table_that_was_built_before_is_built_again(self, prepared: Any) -> None:
        schema = prepared.test_schema
        for table in ("cdc_bootstrap__app_people", "people_history", "people_final"):
            prepared.run_sql(f"drop table {schema}.{table}")
        self.declare(prepared, None)
        run_dbt(["build"])
        assert self.names(prepared) == [(4, "dan"), (5, "eve")]
        self.declare(prepared, SOUND)
        operate(source="app", table="people")
        build = run_dbt_and_capture(["build"], expect_pass=False)[1]
        assert "was built from the stream alone, and app.people now starts from the one in" in build
        variables = ["--vars", "{cdc_rebuild: people_history}"]
        run_dbt(["build", "--full-refresh", *variables])
        assert self.names(prepared) == [(1, "ann"), (3, "cy"), (4, "dan")]
        assert rows(prepared, "select count(*) from {s}.people_history where _seq < 10") == [(0,)]

    def test_an_erased_person_is_in_no_file_of_the_copy(
        self, prepared: Any, warehouse: Path
    ) -> None:
        said = operate("cdc_erase", table="people_history", keys=[1], dry_run=False)
        assert "1 rows of the snapshot" in said and "0 of" in said
        run_dbt(["build", "--full-refresh"])
        assert self.names(prepared) == [(3, "cy"), (4, "dan")]
        folder = warehouse / f"{prepared.test_schema}.db" / "cdc_bootstrap__app_people"
        files = [pq.read_table(file).to_pylist() for file in folder.glob("*.parquet")]
        assert "cy" in repr(files) and "ann" not in repr(files)

    def test_a_model_without_its_snapshot_is_compiled_and_never_read(self, prepared: Any) -> None:
        schema = prepared.test_schema
        self.declare(prepared, SOUND)
        prepared.run_sql(f"drop table {schema}.cdc_bootstrap__app_people")
        run_dbt(["compile"])
        with pytest.raises(DbtRuntimeError, match="which has not been taken"):
            run_dbt(["show", "--select", "stg_people"])
        # Where its view is still that of another declaration, the macro words it, and else Spark.
        select = ["--select", "people_history"]
        build = run_dbt_and_capture(["build", *select], expect_pass=False)[1]
        assert "cdc_bootstrap__app_people" in build and "run-operation cdc_bootstrap" in build
        assert "was built from another snapshot" not in build
        build = run_dbt_and_capture(["build", "--full-refresh"], expect_pass=False)[1]
        assert "which has not been taken: there is no cdc_bootstrap__app_people" in build
