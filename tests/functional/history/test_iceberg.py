"""Histories and final tables in Iceberg: the same rules, and what people do to such tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from dbt.adapters.sparkcdc.iceberg import writes as iceberg_writes
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.history import iceberg_files
from tests.functional.history import test_one_answer as one_answer
from tests.functional.history import test_round_trip as round_trip
from tests.functional.history.tables import FINAL, append, histories, rows
from tests.functional.history.test_one_answer import BUILD, DECLARED, Tables, arriving
from tests.functional.scenarios import BATCHES, draw_scenarios, pack

pytestmark = pytest.mark.extended

CATALOG = "ice"
SCENARIOS, MANY_SCENARIOS = 300, 1000

# Each table writes in another way.
WAYS = {
    "changes_history": "file_format: iceberg, write_mode: copy-on-write",
    "tracked_history": "file_format: iceberg, format_version: 3",
}
FINALS = {
    "changes": "file_format='iceberg'",
    "tracked": "file_format='iceberg', write_mode='copy-on-write', format_version=3",
    "alone": "file_format='iceberg', format_version=3",
}


def snapshots() -> str:
    text = one_answer.SNAPSHOTS
    for name, way in WAYS.items():
        head, _, tail = text.partition(f"name: {name}\n")
        text = f"{head}name: {name}\n" + tail.replace("file_format: delta", way, 1)
    return text


class IcebergTables(Tables):
    def version(self, table: str) -> int:
        """The newest snapshot of a table."""
        newest = "select snapshot_id from {built}.TABLE.refs where name = 'main'"
        return int(self.rows(newest.replace("TABLE", table))[0][0])


@pytest.fixture(scope="class")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    return {**dbt_profile_target, "iceberg_catalog": CATALOG}


class TestOneAnswerInIceberg:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": one_answer.SOURCES}
        for name, (_, read) in DECLARED.items():
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_final.sql"] = one_answer.FINAL.format(read=read).replace(
                "materialized", f"{FINALS[name]}, materialized"
            )
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": snapshots()}

    @pytest.fixture
    def tables(self, project: Any, spark: Any, package: None) -> Iterator[Tables]:
        yield IcebergTables(project, spark, f"{CATALOG}.")

    @pytest.mark.parametrize(
        "count", [SCENARIOS, pytest.param(MANY_SCENARIOS, marks=pytest.mark.soak)]
    )
    def test_any_batching_any_order(self, tables: Tables, count: int) -> None:
        tables.empty()
        scenarios = draw_scenarios(count, start=20261125)
        arrivals = pack(scenarios)
        events = [event for event, _ in arrivals]
        for batch in range(BATCHES):
            tables.put(batch, arriving(arrivals, batch))
            run_dbt([*BUILD])
            seen = [event for event, batches in arrivals if min(batches) <= batch]
            wrong = tables.differences(seen)
            assert not wrong, tables.explain(scenarios, min(wrong))
        versions = tables.versions()
        run_dbt([*BUILD])
        assert versions == tables.versions()
        if count == SCENARIOS:
            return  # the test of Delta's tables goes on, and so does `make soak`

        # Known events change no row, and neither does a rebuild from the raw events.
        tables.put(BATCHES, events[: len(events) // 2])
        run_dbt([*BUILD])
        assert not tables.changed(versions)
        run_dbt([*BUILD, "--full-refresh"])
        assert not tables.differences(events)


ITEMS = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc: {{format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch,
          ignore_null_updates: [note]{more}}}
    tables:
      - name: items
        config: {{meta: {{cdc: {{track_history_columns: [size]}}}}}}
        columns: &columns [{{name: id, data_type: int}}, {columns}]
      - name: alone
        identifier: items
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
"""
PLAIN = "{name: size, data_type: smallint}, {name: note, data_type: string}"
EVOLVED = (
    "{name: size, data_type: bigint}, {name: remark, data_type: string},"
    " {name: place, data_type: 'struct<x:int,y:double>'}, {name: seen, data_type: timestamp_ntz}"
)
RAW = (
    "id int, seq int, op string, size bigint, note string, remark string,"
    " place struct<x:int,y:double>, seen timestamp_ntz, batch int"
)
ITEM_SNAPSHOT = """
version: 2
snapshots:
  - name: items_history
    relation: ref('stg_items')
    config: {{strategy: cdc.scd2, unique_key: [id], file_format: iceberg{more}}}
"""
ITEM_FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id'],
    file_format='iceberg'{more}) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""
TABLES = ["items_history", "items", "alone"]
SEEN = datetime(2026, 1, 1, 12, 30)
# What is done by hand between two builds. A commit that is not ours is seen, whatever it did, and
# a table that is gone. `alone` and the history have nothing to do with each other, and neither have
# the final table and the tombstones.
ACTS = [
    ("delete from {s}.items where id = 1", "delete from {s}.alone where id = 1"),
    ("delete from {s}.items_history where id = 1", "drop table {s}.alone"),
    ("drop table {s}.items_history_tombstones", "drop table {s}.items"),
    ("drop table {s}.items_history",),
]
MORE_ACTS = [
    "update {s}.items set size = 77 where id = 3",
    "insert into {s}.items select * from {s}.items",
    "truncate table {s}.items",
    "truncate table {s}.items_history",
]


class Lake:
    """A project of a few Iceberg tables, and what its rows have to be."""

    def __init__(self, project: Any, spark: Any) -> None:
        self.project, self.spark = project, spark
        self.schema = f"{CATALOG}.{project.test_schema}"
        self.batch = 0
        self.rows: dict[int, tuple[Any, ...]] = {}

    def sql(self, statement: str) -> Any:
        return self.spark.sql(statement.format(s=self.schema, raw=self.project.test_schema))

    def arrive(self, *events: tuple[Any, ...]) -> None:
        """Events are id, operation, size and note."""
        self.batch += 1
        table = f"{self.project.test_schema}.items"
        full = [
            (key, self.batch * 10 + place, op, size, note, note, None, None, self.batch)
            for place, (key, op, size, note) in enumerate(events)
        ]
        append(self.spark, table, full, RAW)
        for key, op, size, note in events:
            if op == "D":
                self.rows.pop(key, None)
            else:
                kept = note if note is not None or key not in self.rows else self.rows[key][1]
                self.rows[key] = (size, kept)

    def build(self, *more: str, fails: bool = False) -> dict[str, str]:
        results = run_dbt(["build", *more], expect_pass=None)  # type: ignore[arg-type]
        messages = {result.node.name: str(result.message) for result in results}
        failed = [r for r in results if r.status in ("error", "fail")]
        assert bool(failed) == fails, messages
        return messages

    def check(self, note: str = "note") -> None:
        """All tables say the same, and what the events come to."""
        expected = sorted((key, *row) for key, row in self.rows.items())
        living = {
            "items_history": "_seq_end is null",
            "items": "true",
            "alone": "_cdc_deleted_at is null",
        }
        for table, condition in living.items():
            found = self.sql(
                f"select id, size, {note} from {{s}}.{table} where {condition} order by id"
            )
            assert [tuple(row) for row in found.collect()] == expected, table

    def versions(self) -> list[Any]:
        found = self.sql(
            "select id, size, _seq, _seq_end, _cdc_created_at from {s}.items_history"
            " order by id, _seq"
        )
        return found.collect()

    def all_snapshots_of(self, table: str) -> set[int]:
        found = self.sql(f"select snapshot_id from {{s}}.{table}.snapshots")
        return {row[0] for row in found.collect()}

    def snapshots_of(self, table: str) -> list[int]:
        """The snapshots that made the table, the oldest one first."""
        found = self.sql(
            f"select snapshot_id from {{s}}.{table}.history where is_current_ancestor"
            " order by made_current_at"
        )
        return [row[0] for row in found.collect()]


class TestWhatPeopleDo:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": ["{{ cdc.record_run(results) }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": ITEMS.format(columns=PLAIN, more=""),
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "items.sql": ITEM_FINAL.format(read="items_history", more=""),
            "alone.sql": ITEM_FINAL.format(read="stg_alone", more=""),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": ITEM_SNAPSHOT.format(more="")}

    @pytest.fixture(scope="class")
    def kept(self) -> dict[str, Any]:
        return {}

    @pytest.fixture
    def lake(self, project: Any, spark: Any, package: None, kept: dict[str, Any]) -> Lake:
        lake = kept.setdefault("lake", Lake(project, spark))
        lake.spark = spark
        return lake

    def test_rows_changed_by_hand(self, lake: Lake) -> None:
        lake.arrive((1, "I", 1, "a"), (2, "I", 2, "b"), (3, "I", 3, "c"))
        lake.build()
        lake.arrive((1, "U", 5, None), (2, "D", None, None), (9, "D", None, None))
        lake.build()
        lake.check()
        versions = lake.versions()
        # A raw table with deletion vectors, which Delta does not read inside a write of Iceberg.
        lake.sql("delete from {raw}.items where id = 9")
        for acts in ACTS:
            self.act(lake, versions, *acts)
        # An event from before the delete that only a tombstone knows.
        lake.arrive((4, "I", 4, "d"))
        lake.build()
        lake.check()

    def act(self, lake: Lake, versions: list[Any], *acts: str) -> None:
        for act in acts:
            lake.sql(act)
        lake.build()
        lake.check()
        assert lake.versions() == versions, acts

    @pytest.mark.soak
    def test_more_rows_changed_by_hand(self, lake: Lake) -> None:
        lake.arrive((1, "I", 1, "a"), (2, "I", 2, "b"), (3, "I", 3, "c"))
        lake.build()
        lake.arrive((1, "U", 5, None), (2, "D", None, None))
        lake.build()
        versions = lake.versions()
        for act in MORE_ACTS:
            self.act(lake, versions, act)

    def test_tables_that_went_back(self, lake: Lake) -> None:
        lake.arrive((3, "U", 33, "cc"))
        lake.build()
        for tables in (("items_history", "alone"), ("items",)):
            for table in tables:
                before, name = lake.snapshots_of(table)[-2], table_of(lake, table)
                lake.sql(f"call {CATALOG}.system.rollback_to_snapshot('{name}', {before})")
            lake.build()
            lake.check()
        lake.arrive((3, "U", 34, None), (5, "I", 5, "e"))
        lake.build()
        lake.check()
        # A history that went back, and was compacted before anything was written.
        for table in ("items_history", "alone"):
            before = lake.snapshots_of(table)[-2]
            lake.sql(
                f"call {CATALOG}.system.rollback_to_snapshot('{table_of(lake, table)}', {before})"
            )
        run_dbt(["run-operation", "cdc_optimize", "--args", "{dry_run: false, min_small_files: 2}"])
        lake.build("--select", "items")
        found = lake.sql("select size from {s}.items where id = 3").collect()
        open_now = lake.sql("select size from {s}.items_history where id = 3 and _seq_end is null")
        assert found == open_now.collect()
        lake.build()
        lake.check()

    def test_operations(self, lake: Lake) -> None:
        lake.arrive((1, "I", 11, "a"), (3, "U", 3, "c"), (6, "U", 6, "f"), (7, "U", 7, "g"))
        lake.build()
        lake.arrive((1, "U", 12, "aa"), (6, "D", None, None))
        lake.build()
        arguments = "{dry_run: false, min_small_files: 2}"
        run_dbt(["run-operation", "cdc_optimize", "--args", arguments])
        for table in TABLES:
            assert lake.sql(f"select count(*) from {{s}}.{table}.delete_files").first()[0] == 0
        run_dbt(["run-operation", "cdc_vacuum", "--args", "{dry_run: false}"])
        # Nothing is read again: the checkpoint outlived its own snapshot.
        for table in TABLES:
            lake.sql(
                f"call {CATALOG}.system.expire_snapshots(table => '{table_of(lake, table)}',"
                " older_than => current_timestamp(), retain_last => 1)"
            )
        outcomes = lake.build()
        assert outcomes["items"] == "nothing new" and outcomes["alone"] == "nothing new"
        lake.arrive((3, "U", 36, "newer"))
        lake.build()
        lake.check()

        run = lake.sql("select max_by(run_id, run_started_at) from {raw}.cdc_runs").first()[0]
        arguments = f"{{table: items_history, run: '{run}', dry_run: false}}"
        run_dbt(["run-operation", "cdc_rewind", "--args", arguments])
        size = lake.sql("select size from {s}.items where id = 3").first()[0]
        assert size == 3
        lake.build()
        lake.check()
        run_dbt(
            [
                "run-operation",
                "cdc_replay",
                "--args",
                f"{{table: items_history, since: {lake.batch}}}",
            ]
        )
        lake.build()
        lake.check()
        run_dbt(["run-operation", "cdc_compact", "--args", "{keep_versions: 1, dry_run: false}"])
        lake.build()
        lake.check()
        erase = ["run-operation", "cdc_erase", "--args", "{table: items_history, keys: [3]}"]
        _, said = run_dbt_and_capture(erase)
        assert "1 key would be erased" in said
        amend = {"table": "items", "where": "id = 3", "delete": True}
        _, output = run_dbt_and_capture(["run-operation", "cdc_amend", "--args", json.dumps(amend)])
        assert "1 row would be deleted" in output
        assert lake.sql("show tables in {raw} like 'cdc_amendments*'").collect() == []

    @pytest.mark.soak
    def test_amendments(self, lake: Lake) -> None:
        """They are events in a Delta table, which staging joins whatever the format is."""
        lake.arrive((1, "U", 21, "x"), (5, "U", 25, "x"), (7, "U", 27, "y"))
        lake.build()
        for change in ({"set": {"size": "size + 100"}}, {"delete": True}):
            where = f"note = '{'x' if 'set' in change else 'y'}'"
            for table in ("items", "alone"):
                self.amend(table=table, where=where, **change)
            # What waits for a build is applied before the next condition is asked.
            lake.build()
        for key in (1, 5):
            lake.rows[key] = (lake.rows[key][0] + 100, lake.rows[key][1])
        del lake.rows[7]
        lake.check()
        lake.build("--full-refresh", "--select", "items_history", "alone")
        lake.build()
        lake.check()

    def amend(self, **args: Any) -> None:
        run_dbt(["run-operation", "cdc_amend", "--args", json.dumps(args | {"dry_run": False})])

    def test_a_table_in_the_other_format(self, lake: Lake) -> None:
        root = lake.project.project_root
        write_file(
            ITEM_SNAPSHOT.format(more="").replace("iceberg", "delta"),
            root,
            "snapshots",
            "snapshots.yml",
        )
        messages = lake.build("--no-partial-parse", "--select", "items_history", fails=True)
        assert "holds its versions as an Iceberg table" in messages["items_history"]
        write_file(ITEM_SNAPSHOT.format(more=""), root, "snapshots", "snapshots.yml")
        lake.build("--no-partial-parse")
        lake.check()

    def test_declarations_that_change(self, lake: Lake) -> None:
        lake.arrive((1, "U", 2, "n"), (3, "U", 3, "n"))
        root = lake.project.project_root
        declared = ITEMS.format(columns=EVOLVED, more=", renames: {remark: note}")
        declared = declared.replace("updates: [note]", "updates: [remark]")
        write_file(declared, root, "models", "sources.yml")
        lake.batch += 1
        late = (8, lake.batch * 10, "I", 2**40, None, "r", (1, 0.5), SEEN, lake.batch)
        append(lake.spark, f"{lake.project.test_schema}.items", [late], RAW)
        lake.rows[8] = (2**40, "r")
        lake.build()
        lake.check("remark")
        for table in TABLES:
            found = lake.sql(f"select place.y, seen from {{s}}.{table} where id = 8").first()
            assert tuple(found) == (0.5, SEEN), table

        # No type of Iceberg becomes a text, and no version of its format an older one.
        wrong = declared.replace("name: size, data_type: bigint", "name: size, data_type: string")
        write_file(wrong, root, "models", "sources.yml")
        messages = lake.build(fails=True)
        for table in ("items_history", "alone"):
            assert "`size` is bigint and is now declared as string" in messages[table]
        write_file(declared, root, "models", "sources.yml")
        options = ", write_mode: copy-on-write, format_version: 3"
        write_file(ITEM_SNAPSHOT.format(more=options), root, "snapshots", "snapshots.yml")
        lake.arrive((8, "U", 5, None), (1, "U", 4, None))
        lake.build("--no-partial-parse")
        lake.check("remark")
        found = lake.sql("show tblproperties {s}.items_history").collect()
        properties = {row[0]: row[1] for row in found}
        assert properties["write.merge.mode"] == "copy-on-write"
        assert properties["format-version"] == "3"
        options = ", write_mode: merge-on-read, format_version: 2"
        write_file(ITEM_SNAPSHOT.format(more=options), root, "snapshots", "snapshots.yml")
        lake.arrive((8, "U", 6, None))
        history = ["--no-partial-parse", "--select", "items_history"]
        messages = lake.build(*history, fails=True)
        assert "has format version 3 of Iceberg" in messages["items_history"]
        write_file(ITEM_SNAPSHOT.format(more=""), root, "snapshots", "snapshots.yml")
        lake.build(*history, fails=True)
        options = ", format_version: 3"
        write_file(ITEM_SNAPSHOT.format(more=options), root, "snapshots", "snapshots.yml")
        lake.build("--no-partial-parse")
        lake.check("remark")

    def test_refused(self, lake: Lake) -> None:
        """Everything that is wrong with the options is reported before anything is written."""
        root = Path(lake.project.project_root)
        before = {table: lake.snapshots_of(table) for table in TABLES}
        files = ["snapshots/snapshots.yml", "models/alone.sql", "models/sources.yml"]
        sound = {name: (root / name).read_text() for name in files}
        options = ", write_mode: never, clustered_by: id"
        write_file(ITEM_SNAPSHOT.format(more=options), root, "snapshots", "snapshots.yml")
        wrong = ", write_mode='sometimes', format_version=4"
        alone = ITEM_FINAL.format(read="stg_alone", more=wrong)
        write_file(alone, root, "models", "alone.sql")
        text = alone.replace(wrong, ", format_version=3").replace("'iceberg'", "'delta'")
        write_file(text, root, "models", "in_delta.sql")
        # Names of Iceberg's own, which only reading would refuse.
        lake.sql("alter table {raw}.items add column _POS int")
        declared = sound["models/sources.yml"]
        declared = declared.replace("[{name: id,", "[{name: _POS, data_type: int}, {name: id,", 1)
        declared = declared.replace("history: false", "history: false, keys: []")
        write_file(declared, root, "models", "sources.yml")
        lake.arrive((8, "U", 7, None))
        results = run_dbt(["build", "--no-partial-parse"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        for node, problem in (
            ("items_history", "`write_mode: never`"),
            ("items_history", "`clustered_by`"),
            ("items_history", "the column `_POS` of app.items has a name"),
            ("alone", "`write_mode: sometimes`"),
            ("alone", "`format_version: 4`"),
            ("alone", "app.alone has no `keys`: its rows are identified"),
            ("in_delta", "`file_format: delta`. It is an option of Iceberg"),
        ):
            assert problem in messages[node], messages[node]
        (root / "models" / "in_delta.sql").unlink()
        for name, text in sound.items():
            write_file(text, root, *name.split("/"))
        assert before == {table: lake.snapshots_of(table) for table in TABLES}
        lake.build("--no-partial-parse")
        lake.check("remark")

    @pytest.mark.soak
    def test_two_writers(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Somebody commits between the look at a table and our own commit."""
        stage = iceberg_writes.STAGED_AS
        before = {table: lake.all_snapshots_of(table) for table in TABLES}
        execute = Cursor.execute
        acts: dict[str, str] = {}

        def acting(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            execute(cursor, sql, bindings)
            for table in list(acts):
                # Our rows are staged, and not yet the table's.
                if cursor._spark.conf.get(f"spark.{stage}", None) and f".{table} " in sql:
                    lake.sql(acts.pop(table))

        def build(fails: bool, **now: str) -> dict[str, str]:
            acts.update(now)
            with monkeypatch.context() as patch:
                patch.setattr(Cursor, "execute", acting)
                messages = lake.build(fails=fails)
            assert not acts
            return messages

        # A change by hand of the history stops the build; the next one reads everything again.
        lake.arrive((1, "U", 8, None), (3, "U", 8, None), (10, "I", 10, "new"))
        messages = build(True, items_history="delete from {s}.items_history where id = 1")
        assert "another program wrote" in messages["items_history"], messages
        lake.build()
        lake.check("remark")
        lake.arrive((1, "U", 9, None), (3, "D", None, None))
        messages = build(True, items="delete from {s}.items where id = 8")
        assert "another program wrote" in messages["items"], messages
        lake.build()
        lake.check("remark")
        # Maintenance beside a build is no other writer, but its files are not ours.
        lake.arrive((1, "U", 10, None), (10, "U", 11, None))
        compaction = f"call {CATALOG}.system.rewrite_data_files(table => 'T', options => map("
        compaction += "'rewrite-all', 'true'))"
        build(False, items_history=compaction.replace("T", table_of(lake, "items_history")))
        lake.check("remark")
        # Nothing of what was not published is left.
        for table in TABLES:
            assert lake.all_snapshots_of(table) - before[table] <= set(lake.snapshots_of(table))

    @pytest.mark.soak
    def test_a_build_that_dies(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Between staging and publishing, and right after publishing."""
        publish = iceberg_writes._publish

        def before(*arguments: Any) -> bool:
            raise RuntimeError("killed")

        def after(*arguments: Any) -> bool:
            publish(*arguments)
            raise RuntimeError("killed")

        for size, dying in enumerate((before, after)):
            lake.arrive((1, "U", 100 + size, None), (20 + size, "I", 1, "x"), (8, "D", None, None))
            with monkeypatch.context() as patch:
                patch.setattr(iceberg_writes, "_publish", dying)
                lake.build(fails=True)
            lake.build()
            lake.check("remark")


THINGS = round_trip.THINGS.replace(
    "tblproperties={'delta.enableChangeDataFeed': 'true'}", "file_format='iceberg', {mode}"
)
MODES = {
    "things": "tblproperties={'write.delete.mode': 'merge-on-read',"
    " 'write.update.mode': 'merge-on-read', 'write.merge.mode': 'merge-on-read'}",
    "whole": "tblproperties={'format-version': '3'}",
    "vectors": "tblproperties={'format-version': '3', 'write.delete.mode': 'merge-on-read',"
    " 'write.update.mode': 'merge-on-read', 'write.merge.mode': 'merge-on-read'}",
}
# A table of another writer.
FLINK = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id'],
    file_format='iceberg', tblproperties={'format-version': '2'}) }}
select 0 as id, 0 as data where false
"""
# What Iceberg has not, or has in another way.
OTHERWISE = {
    "optimize": "call {c}.system.rewrite_data_files(table => '{n}', options => map("
    "'rewrite-all', 'true'))",
    "purge": "call {c}.system.rewrite_manifests('{n}')",
    "vectors": "alter table {t} set tblproperties ('a' = '{vectors}')",
    "replace": "insert overwrite {t} select id, if(id % 2 = 0, a, 'r{step}'), at, part from {t}",
}
OPERATIONS = {
    kind: OTHERWISE.get(kind, statement)
    for kind, statement in round_trip.STATEMENTS.items()
    if kind != "restore"
}


class TestChangesOfIceberg:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": "version: 2\nsources:\n"}
        for name, mode in MODES.items():
            models[f"{name}.sql"] = THINGS.replace("{mode}", mode)
            models[f"{name}_feed.sql"] = round_trip.FEED.replace("'things'", f"'{name}'")
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('{name}_out', 'rows')) }}}}"
            models[f"{name}_again.sql"] = FINAL.replace("'scenario', ", "").format(
                read=f"{name}_history"
            )
            source = round_trip.SOURCES.partition("sources:\n")[2]
            for old, new in (("name: things", "name: rows"), ("name: out", f"name: {name}_out")):
                source = source.replace(old, new, 1)
            models["sources.yml"] += source.replace("things_feed", f"{name}_feed")
        models["flink.sql"] = FLINK
        models["flink_feed.sql"] = round_trip.FEED.replace("'things'", "'flink'")
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(**{f"{name}_history": f"stg_{name}" for name in MODES})

    def operate(self, project: Any, spark: Any, kind: str, n: int, step: int) -> None:
        for name in MODES:
            statement = OPERATIONS[kind].format(
                t=f"{CATALOG}.{project.test_schema}.{name}",
                n=f"{project.test_schema}.{name}" if "call" in OPERATIONS[kind] else n,
                c=CATALOG,
                new=round_trip.NEW.format(step=step),
                step=step,
                vectors=str(n % 2 == 0).lower(),
            )
            spark.sql(statement)

    def rebuild(self, project: Any) -> None:
        run_dbt(["run", "--select", *(f"{name}_feed" for name in MODES)])
        run_dbt(["build", "--select", *(f"stg_{name}+" for name in MODES)])
        columns = "id, a, at, part"
        for name in MODES:
            again = f"select {columns} from {{s}}.{name}_again"
            things = f"select {columns} from {CATALOG}.{{s}}.{name}"
            assert rows(project, f"({again}) except all ({things})") == [], name
            assert rows(project, f"({things}) except all ({again})") == [], name

    @pytest.mark.usefixtures("package")
    def test_any_sequence_of_operations(self, project: Any, spark: Any) -> None:
        run_dbt(["run", "--select", *MODES])
        kinds = ["insert", *(kind for kind in OPERATIONS if kind != "insert")]
        for step, kind in enumerate(kinds):
            if step % 4 == 1:
                self.operate(project, spark, "insert", 5 * step, step)
            self.operate(project, spark, kind, 7 * step, step)
            if step == len(kinds) // 2:
                self.rebuild(project)
        self.rebuild(project)
        for name in MODES:
            # No row goes out that is what it was, and none of a row twice.
            unpaired = (
                f"select _commit_version, id from {{s}}.{name}_feed group by all"
                " having array_join(array_sort(collect_list(_row_kind)), '')"
                " not in ('+I', '-D', '+U-U') or count(distinct a, at, part) < count(*)"
            )
            assert rows(project, unpaired) == [], name
        outcome = {r.node.name: r.message for r in run_dbt(["run", "--select", "things_feed"])}
        assert outcome["things_feed"] == "nothing new"

    @pytest.mark.usefixtures("package")
    def test_article_004(self, project: Any, spark: Any, warehouse: Path) -> None:
        """Rows of the same commit are deleted by position, and rows of earlier ones by key."""
        run_dbt(["run", "--select", "flink", "flink_feed"])
        name = f"{CATALOG}.{project.test_schema}.flink"
        folder = warehouse.with_name("iceberg") / project.test_schema / "flink"

        def flink_rows(*keys: int) -> pa.Table:
            found = {"id": keys, "data": [key % 10 for key in keys]}
            return pa.table({k: pa.array(v, pa.int32()) for k, v in found.items()})

        iceberg_files.commit(spark, name, folder, rows=flink_rows(12, 13, 14))
        run_dbt(["run", "--select", "flink_feed"])
        iceberg_files.commit(
            spark,
            name,
            folder,
            rows=flink_rows(15),
            deleted_places=[0],
            deleted_keys=flink_rows(15, 14).select(["id"]),
        )
        # A row that is inserted, deleted and inserted by one commit: both deletes, one row left.
        iceberg_files.commit(
            spark,
            name,
            folder,
            rows=flink_rows(17, 17),
            deleted_places=[0],
            deleted_keys=flink_rows(17).select(["id"]),
        )
        run_dbt(["run", "--select", "flink_feed"])
        assert rows(project, f"select id, data from {name} order by id") == [
            (12, 2),
            (13, 3),
            (17, 7),
        ]
        feed = "select _row_kind, id, data from {s}.flink_feed order by _commit_version, id"
        assert rows(project, feed) == [
            ("+I", 12, 2),
            ("+I", 13, 3),
            ("+I", 14, 4),
            ("-D", 14, 4),
            ("+I", 17, 7),
        ]

    def refusal(self, model: str, *more: str) -> str:
        results = run_dbt(["run", "--select", model, *more], expect_pass=False)
        return {r.node.name: str(r.message) for r in results}[model]

    @pytest.mark.usefixtures("package")
    def test_changes_that_are_gone(self, project: Any, spark: Any) -> None:
        table = f"{project.test_schema}.things"
        self.operate(project, spark, "insert", 3, 100)
        spark.sql(
            f"call {CATALOG}.system.expire_snapshots(table => '{table}', older_than =>"
            " current_timestamp(), retain_last => 1)"
        )
        said = self.refusal("things_feed")
        assert "Iceberg snapshots expired" in said
        assert "dbt build --full-refresh --select things_feed" in said
        assert "Read from there, `from_version=" in self.refusal("things_feed", "--full-refresh")

        table = f"{project.test_schema}.whole"
        oldest = f"select snapshot_id from {CATALOG}.{table}.history order by made_current_at"
        first = spark.sql(oldest).collect()[1][0]
        spark.sql(f"call {CATALOG}.system.rollback_to_snapshot('{table}', {first})")
        assert "rolled back" in self.refusal("whole_feed")


def table_of(lake: Lake, table: str) -> str:
    """The table's name within its catalog."""
    return f"{lake.project.test_schema}.{table}"
