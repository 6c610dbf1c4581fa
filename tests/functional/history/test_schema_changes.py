"""The columns of a source change while its events flow: late ones still have the old columns."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar, NamedTuple

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.history.tables import append, histories, rows

DECLARATION = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc:
          format: debezium
          payload: value
          keys: [scenario, {key}]
          sequence_by: cast(_message.source.lsn as bigint)
          event_time: false
          arrival: batch
          {options}
    tables:
      - name: tracked
        identifier: changes
        config: {{meta: {{cdc: {{track_history_columns: [{a}]}}}}}}
        columns: &columns {columns}
      - name: alone
        identifier: changes
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
      - name: rows
        identifier: changes
        columns: *columns
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: {name}_history
    relation: ref('stg_{name}')
    config: {{strategy: cdc.scd2, unique_key: [scenario, {key}], file_format: delta}}
"""

FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['scenario', '{key}']
) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""

CHANGES = """
{{ config(materialized='table', enabled=var('feed', false)) }}
{{ cdc.changelog(ref('tracked_final')) }}
"""

# What `type: spark` does to the columns of a table.
PORTABLE = """
{% macro evolve(columns, images=[], renames={}) %}
    {% set relation = api.Relation.create(schema=target.schema, identifier="portable") %}
    {% do cdc.default__evolve(relation, columns, images, renames) %}
{% endmacro %}
"""

# What the source's table looks like, one after the other. A field named `size.<part>` is one of a
# struct. Column `d` is dropped, `a` and the key are renamed, `n` is widened.
FORMS: list[dict[str, Any]] = [
    {"columns": {"id": "int", "a": "string", "d": "string", "n": "int", "size": "struct<x:int>"}},
    {
        "columns": {
            "c": "string",
            "id": "int",
            "a": "string",
            "d": "string",
            "n": "bigint",
            "size": "struct<x:int,y:string>",
        }
    },
    {
        "columns": {
            "key": "bigint",
            "d": "string",
            "n": "decimal(22,1)",
            "aa": "string",
            "c": "string",
            "size": "struct<y:string,x:bigint,z:array<struct<u:int>>>",
        },
        "renames": {"key": "id", "aa": ["a"]},
        "dropped": ["d"],
    },
]
# The columns by the names that the oracle knows.
FIRST_NAMES = {"key": "id", "aa": "a"}
LINES = "value string, batch int"
# dbt's partial parsing passes over a changed unique_key of a snapshot in YAML.
BUILD = ["--no-partial-parse", "build"]
STEP = 100  # positions of each form


class Change(NamedTuple):
    """A change of a row, with the columns that it says something of, by their first names."""

    scenario: int
    id: int
    position: int
    op: str
    values: tuple[tuple[str, Any], ...]


def draw_value(draw: random.Random, column: str, form: int) -> Any:
    if column == "n":
        return draw.choice([1, 2, None] + [2**40] * (form > 0) + [2.5] * (form > 1))
    if column == "size":
        size: dict[str, Any] = {"x": draw.choice([1, 2**40 if form > 1 else 2])}
        size |= {"y": draw.choice("pq")} if form > 0 else {}
        size |= {"z": [{"u": draw.randint(1, 2)}]} if form > 1 else {}
        return draw.choice([json.dumps(size), json.dumps(size), None])
    return draw.choice(["x", "y", None])


def draw_changes(draw: random.Random, scenario: int) -> list[Change]:
    """Changes of two rows, each at a position of its own."""
    changes = []
    for position in draw.sample(range(STEP * len(FORMS)), draw.randint(2, 12)):
        form = position // STEP
        op = draw.choice("IUUUD")
        columns = [FIRST_NAMES.get(c, c) for c in FORMS[form]["columns"]]
        said = [
            (column, draw_value(draw, column, form))
            for column in columns
            if column != "id" and column not in FORMS[form].get("dropped", ())
            if op == "I" or (op == "U" and draw.random() < 0.6)
        ]
        changes.append(Change(scenario, draw.randint(0, 1), position, op, tuple(said)))
    return changes


def message(change: Change) -> str:
    """The change as the source writes it, by the names of its time."""
    form = FORMS[change.position // STEP]
    present = {FIRST_NAMES.get(name, name): name for name in form["columns"]}
    key = {"scenario": change.scenario, present["id"]: change.id}
    values = {
        present[name]: json.loads(value) if name == "size" and value else value
        for name, value in change.values
    }
    image = key if change.op == "D" else key | values
    op = {"I": "c", "U": "u", "D": "d"}[change.op]
    before = image if change.op == "D" else None
    after = None if change.op == "D" else image
    source = {"lsn": change.position}
    return json.dumps({"op": op, "before": before, "after": after, "source": source})


def expected(changes: dict[Change, int], form: int, tracked: list[str] | None) -> set[Any]:
    """Folds changes to versions.

    Args:
        changes: With the form that was declared when each arrived first.
        form: The form that is declared now.
        tracked: Columns whose change begins a version; by default all.
    """
    columns = sorted(
        {FIRST_NAMES.get(c, c) for f in FORMS[: form + 1] for c in f["columns"]} - {"id"}
    )
    found: set[Any] = set()
    keys: dict[Any, list[Change]] = {}
    for change in changes:
        keys.setdefault((change.scenario, change.id), []).append(change)
    for key, own in keys.items():
        versions: list[list[Any]] = []
        row: dict[str, Any] | None = None
        for change in sorted(own, key=lambda change: change.position):
            if change.op == "D":
                if row is not None:
                    versions[-1][2] = change.position
                row = None
                continue
            said = dict(change.values)
            if changes[change] >= 2:
                said["d"] = None
            values = {c: said[c] if c in said else (row or {}).get(c) for c in columns}
            if row is None or any(values[c] != row[c] for c in tracked or columns):
                if row is not None:
                    versions[-1][2] = change.position
                versions.append([key, change.position, None, None])
            versions[-1][3] = tuple(normal(c, values[c]) for c in columns)
            row = values
        found |= {tuple(version) for version in versions}
    return found


def normal(column: str, value: Any) -> Any:
    """A value without what its type adds."""
    if column == "size" and value is not None:
        size = json.loads(value) if isinstance(value, str) else value
        size = {k: v for k, v in (size or {}).items() if v is not None}
        return json.dumps(size, sort_keys=True) if size else None
    return float(value) if column == "n" and value is not None else value


def declared(number: int, names: tuple[str, ...]) -> dict[str, str]:
    """The files of the project as they declare a form, with these tables."""
    form = FORMS[number]
    key, a = (next(n for n in form["columns"] if FIRST_NAMES.get(n, n) == c) for c in ("id", "a"))
    options = {"renames": form.get("renames", {}), "except_columns": form.get("dropped", [])}
    columns = [{"name": "scenario", "data_type": "int"}] + [
        {"name": name, "data_type": kind} for name, kind in form["columns"].items()
    ]
    reads = {n: "stg_alone" if n == "alone" else f"{n}_history" for n in names}
    return {
        "models/sources.yml": DECLARATION.format(
            key=key,
            a=a,
            columns=json.dumps(columns),
            options="\n          ".join(f"{k}: {json.dumps(v)}" for k, v in options.items()),
        ),
        "models/tracked_changes.sql": CHANGES,
        **{
            f"snapshots/{name}.yml": SNAPSHOTS.format(key=key, name=name)
            for name in names
            if name != "alone"
        },
        **{
            f"models/stg_{name}.sql": f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            for name in reads
        },
        **{
            f"models/{name}_final.sql": FINAL.format(key=key, read=read)
            for name, read in reads.items()
        },
    }


def files(folder: str, names: tuple[str, ...]) -> dict[str, str]:
    return {
        path.split("/")[1]: text
        for path, text in declared(0, names).items()
        if path.startswith(folder)
    }


class TestSchemaChanges:
    names: ClassVar[tuple[str, ...]] = ("tracked", "alone")
    scenarios = 200
    batches = 1  # of each form

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return files("models", self.names)

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return files("snapshots", self.names)

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"portable.sql": PORTABLE}

    def read(self, project: Any, table: str, form: int, columns: str) -> list[Any]:
        """Rows by the columns' first names, in the order of the oracle."""
        present = {
            FIRST_NAMES.get(name, name): name for f in FORMS[: form + 1] for name in f["columns"]
        }
        values = sorted(set(present) - {"id"})
        read = ", ".join(
            f"to_json({present[c]})" if c == "size" else f"{present[c]}" for c in values
        )
        found = rows(
            project, f"select scenario, {present['id']}, {columns}, {read} from {{s}}.{table}"
        )
        width = columns.count(",") + 1
        return [
            (
                (row[0], row[1]),
                *row[2 : 2 + width],
                tuple(normal(c, v) for c, v in zip(values, row[2 + width :], strict=True)),
            )
            for row in found
        ]

    def check(self, project: Any, changes: dict[Change, int], form: int) -> None:
        for name in self.names:
            if name == "alone":
                continue
            tracked = ["a"] if name == "tracked" else None
            versions = self.read(project, f"{name}_history", form, "_seq, _seq_end")
            found = expected(changes, form, tracked)
            surplus, missing = set(versions) - found, found - set(versions)
            assert (surplus, missing) == (set(), set()), f"{name}, form {form}"
            assert len(versions) == len(found)
            living = sorted((v[0], v[3]) for v in found if v[2] is None)
            assert sorted((r[0], r[2]) for r in self.read(project, f"{name}_final", form, "1")) == (
                living
            )
        alone = "alone_final where _cdc_deleted_at is null"
        living = {(v[0], v[3]) for v in expected(changes, form, []) if v[2] is None}
        assert {(r[0], r[2]) for r in self.read(project, alone, form, "1")} == living

    def test_all_at_once(self, project: Any, spark: Any, package: None) -> None:
        draw = random.Random(20261122)
        arrivals: dict[int, list[Change]] = {n: [] for n in range(len(FORMS) * self.batches)}
        for scenario in range(self.scenarios):
            for change in draw_changes(draw, scenario):
                on_time = change.position * self.batches // STEP
                late = draw.random() < 0.3
                for _ in range(draw.choice([1, 1, 1, 2])):
                    batch = draw.randint(on_time, max(arrivals)) if late else on_time
                    arrivals[batch].append(change)
                    late = True
        changes: dict[Change, int] = {}
        for batch, arriving in arrivals.items():
            form = batch // self.batches
            if batch % self.batches == 0:
                for path, text in declared(form, self.names).items():
                    write_file(text, project.project_root, path)
                if form == len(FORMS) - 1:  # which renames, drops and widens
                    self.only_metadata_are_written(project)
            lines = [(message(change), batch) for change in arriving]
            append(spark, f"{project.test_schema}.changes", lines, LINES)
            for change in arriving:
                changes.setdefault(change, form)
            run_dbt([*BUILD])
            self.check(project, changes, form)
        self.stays(project, changes)

    def of_tables(self, project: Any, query: str) -> list[Any]:
        """What a query says of the tables that are kept."""
        names = [f"{name}_final" for name in self.names] + ["tracked_history"]
        return [rows(project, query.format(f"{{s}}.{name}")) for name in names]

    def only_metadata_are_written(self, project: Any) -> None:
        def found() -> tuple[Any, Any]:
            files = self.of_tables(
                project, "select distinct _metadata.file_name from {} order by 1"
            )
            return files, rows(project, "select _event_id from {s}.stg_alone order by 1")

        before = found()
        run_dbt([*BUILD])
        assert found() == before

    def stays(self, project: Any, changes: dict[Change, int]) -> None:
        """Nothing more is written, the changes add up, a rebuild gives the same."""
        versions = self.of_tables(project, "describe history {} limit 1")
        run_dbt([*BUILD, "--vars", "feed: true"])
        assert self.of_tables(project, "describe history {} limit 1") == versions
        columns = "scenario, key, aa, c, n, d, to_json(size), _cdc_seq"
        added = (
            f"select {columns} from {{s}}.tracked_changes group by all"
            " having sum(if(_row_kind in ('+I', '+U'), 1, -1)) <> 0"
        )
        table = f"select {columns} from {{s}}.tracked_final"
        assert rows(project, f"({added}) except all ({table})") == []
        assert rows(project, f"({table}) except all ({added})") == []

        # What was dropped is not in the declaration any more: it is NULL wherever it is read again.
        run_dbt([*BUILD, "--full-refresh"])
        project.run_sql(f"alter table {project.test_schema}.alone_final add columns (d string)")
        self.check(project, dict.fromkeys(changes, len(FORMS) - 1), len(FORMS) - 1)

        versions = self.of_tables(project, "describe history {} limit 1")
        self.is_refused(project)
        assert self.of_tables(project, "describe history {} limit 1") == versions

    def is_refused(self, project: Any) -> None:
        """What the tables cannot become, each with what to do."""
        files = declared(len(FORMS) - 1, self.names)
        sources = files["models/sources.yml"]

        def said(**changed: str) -> dict[str, str]:
            write_file(changed.pop("sources", sources), project.project_root, "models/sources.yml")
            for name, text in changed.items():
                write_file(text, project.project_root, "models", f"{name}.sql")
            selected = ["--select", "+tracked_final", "+alone_final"]
            results = run_dbt([*BUILD, *selected], expect_pass=False)
            return {result.node.name: str(result.message) for result in results}

        # A type that changes otherwise, and another spelling of a name.
        narrow = sources.replace('"data_type": "decimal(22,1)"', '"data_type": "int"')
        messages = said(sources=narrow.replace('"name": "c"', '"name": "C"'))
        for table in ("tracked_history", "alone_final"):
            assert (
                f"{table}: column `n` is decimal(22,1) and is now declared as int"
                in (messages[table])
            )
            assert "column `c` is now declared as `C`" in messages[table]
            assert "Declare it as `c`. Or build the table" in messages[table]

        # An event time where there was none.
        messages = said(sources=sources.replace("event_time: false", ""))
        for table in ("tracked_history", "alone_final"):
            assert f"{table} was built without an event time" in messages[table]
            assert "Undo the change of `event_time`" in messages[table]

        # A history where there was none, and none where there was one.
        messages = said(
            tracked_final=files["models/alone_final.sql"],
            alone_final=files["models/tracked_final.sql"],
        )
        assert (
            "tracked_final was built from a history and reads events" in messages["tracked_final"]
        )
        assert "alone_final was built from events and reads a history" in messages["alone_final"]
        assert "dbt build --full-refresh --select alone_final" in messages["alone_final"]

    def test_the_portable_way(self, project: Any, package: None) -> None:
        def evolve(success: bool = True, **arguments: Any) -> str:
            run = ["run-operation", "evolve", "--args", json.dumps(arguments)]
            return run_dbt_and_capture(run, expect_pass=success)[1]

        project.run_sql(
            f"create table {project.test_schema}.portable (id int, a string, n int,"
            " _events array<struct<_op:string,_image:struct<n:int>>>) using delta"
        )
        columns = {"id": "int", "aa": "string", "n": "int", "d": "date"}
        evolve(columns=columns, images=["n", "d"], renames={"aa": ["older", "a"]})
        evolved = [tuple(row[:2]) for row in rows(project, "describe {s}.portable")]
        images = "array<struct<_op:string,_image:struct<n:int,d:date>>>"
        assert evolved == [
            ("id", "int"),
            ("aa", "string"),
            ("n", "int"),
            ("_events", images),
            ("d", "date"),
        ]
        for refused, renames, reason in [
            ({"id": "bigint"}, {}, "column `id` is now declared as bigint"),
            ({"ID": "int"}, {}, "column `ID` is now declared as int, and the table has `id`"),
            (
                {"m": "int"},
                {"m": ["n"]},
                "column `m` is now declared as int, and the table has `n`",
            ),
        ]:
            said = evolve(False, columns=columns | refused, images=["m"], renames=renames)
            assert "portable: " + reason in said
        assert [tuple(row[:2]) for row in rows(project, "describe {s}.portable")] == evolved


@pytest.mark.soak
class TestManySchemaChanges(TestSchemaChanges):
    names: ClassVar[tuple[str, ...]] = ("tracked", "alone", "rows")
    scenarios = 500
    batches = 2


MOVING = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    tables:
      - name: rows
        identifier: changes
        config:
          meta:
            cdc:
              format: debezium
              payload: value
              keys: [id]
              key_changes: true
              sequence_by: cast(_message.source.lsn as bigint)
              event_time: false
              arrival: batch
              renames: {renames}
              except_columns: {dropped}
        columns: {columns}
"""

KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_rows"))
"""


def moving(columns: dict[str, str], renames: dict[str, str], dropped: list[str]) -> str:
    listed = json.dumps([{"name": n, "data_type": kind} for n, kind in columns.items()])
    return MOVING.format(columns=listed, renames=json.dumps(renames), dropped=json.dumps(dropped))


def change(lsn: int, op: str, old: int | None = None, **after: Any) -> str:
    before = {"id": old} if old is not None else None
    return json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": lsn}})


@pytest.mark.soak
class TestMovingKeysToo:
    """Rows are followed through their keys while their columns change."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        first = {"id": "int", "a": "string", "n": "int", "d": "string", "size": "struct<x:int>"}
        return {
            "sources.yml": moving(first, {}, []),
            "stg_rows.sql": "{{ cdc.events(source('app', 'rows')) }}",
            "rows_keys.py": KEYS,
            "rows_final.sql": FINAL.replace("'scenario', '{key}'", "'id'").format(
                read="rows_history"
            ),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(rows_history="rows_keys")

    def test_both_change(self, project: Any, spark: Any, package: None) -> None:
        def put(batch: int, *lines: str) -> None:
            arriving = [(line, batch) for line in lines]
            append(spark, f"{project.test_schema}.changes", arriving, LINES)

        put(
            0,
            change(10, "c", id=1, a="x", n=1, d="d", size={"x": 1}),
            change(20, "u", old=1, id=2),
            change(10, "c", id=7, a="other", n=7, d="d", size=None),
        )
        run_dbt(["build"])
        second = {
            "id": "int",
            "c": "string",
            "n": "bigint",
            "aa": "string",
            "d": "string",
            "size": "struct<y:string,x:bigint>",
            "wide": f"struct<{','.join(f'f{i}:int' for i in range(40))}>",
        }
        written = moving(second, {"aa": "a"}, ["d"])
        write_file(written, project.project_root, "models", "sources.yml")
        put(
            1,
            change(15, "u", id=1, a="late", n=5),  # of the time before
            change(30, "u", id=2, aa="y", n=2**40, c="new", size={"y": "p", "x": 2**40}),
            change(40, "u", old=2, id=3),
            change(10, "c", id=1, a="x", n=1, d="d", size={"x": 1}),  # once more
        )
        run_dbt(["build"])
        columns = "id, aa, n, c, to_json(size), _seq, _seq_end"
        history = (
            f"select {columns} from {{s}}.rows_history"
            " where _entity_id = (select _entity_id from {s}.rows_history where id = 3)"
            " order by _seq"
        )
        wide = json.dumps({"x": 2**40, "y": "p"}, separators=(",", ":"))
        versions = [
            (1, "x", 1, None, '{"x":1}', 10, 15),
            (1, "late", 5, None, '{"x":1}', 15, 20),
            (2, "late", 5, None, '{"x":1}', 20, 30),
            (2, "y", 2**40, "new", wide, 30, 40),
            (3, "y", 2**40, "new", wide, 40, None),
        ]
        assert rows(project, history) == versions
        current = "select id, aa, n, c, to_json(size) from {s}.rows_final order by id"
        living = [(3, "y", 2**40, "new", wide), (7, "other", 7, None, None)]
        assert rows(project, current) == living
        run_dbt(["build", "--full-refresh"])
        assert rows(project, history) == versions
        assert rows(project, current) == living
