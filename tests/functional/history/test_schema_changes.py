"""The columns of a source change while its events flow: late ones still have the old columns."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest
from dbt.tests.util import run_dbt, write_file

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
      - name: rows
        identifier: changes
        columns: &columns {columns}
      - name: tracked
        identifier: changes
        config: {{meta: {{cdc: {{track_history_columns: [{a}]}}}}}}
        columns: *columns
      - name: alone
        identifier: changes
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: rows_history
    relation: ref('stg_rows')
    config: {{strategy: cdc.scd2, unique_key: [scenario, {key}], file_format: delta}}
  - name: tracked_history
    relation: ref('stg_tracked')
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
{{ cdc.changelog(ref('rows_final')) }}
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
# dbt's partial parsing passes over a changed unique_key of a snapshot in YAML.
BUILD = ["--no-partial-parse", "build"]
BATCHES = 1  # of each form
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
    return json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": change.position}})


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


def declared(number: int) -> dict[str, str]:
    """The files of the project as they declare a form."""
    form = FORMS[number]
    key, a = (next(n for n in form["columns"] if FIRST_NAMES.get(n, n) == c) for c in ("id", "a"))
    options = {"renames": form.get("renames", {}), "except_columns": form.get("dropped", [])}
    columns = [{"name": "scenario", "data_type": "int"}] + [
        {"name": name, "data_type": kind} for name, kind in form["columns"].items()
    ]
    reads = {"rows": "rows_history", "tracked": "tracked_history", "alone": "stg_alone"}
    return {
        "models/sources.yml": DECLARATION.format(
            key=key,
            a=a,
            columns=json.dumps(columns),
            options="\n          ".join(f"{k}: {json.dumps(v)}" for k, v in options.items()),
        ),
        "models/rows_changes.sql": CHANGES,
        "snapshots/snapshots.yml": SNAPSHOTS.format(key=key),
        **{
            f"models/stg_{name}.sql": f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            for name in reads
        },
        **{f"models/{name}_final.sql": FINAL.format(key=key, read=read) for name, read in reads.items()},
    }


def files(folder: str) -> dict[str, str]:
    return {
        path.split("/")[1]: text for path, text in declared(0).items() if path.startswith(folder)
    }


class TestSchemaChanges:
    scenarios = 300

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return files("models")

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return files("snapshots")

    def rows(self, project: Any, table: str, form: int, columns: str) -> list[Any]:
        """Rows by the columns' first names, in the order of the oracle."""
        present = {
            FIRST_NAMES.get(name, name): name for f in FORMS[: form + 1] for name in f["columns"]
        }
        values = sorted(set(present) - {"id"})
        read = ", ".join(
            f"to_json({present[c]})" if c == "size" else f"{present[c]}" for c in values
        )
        found = project.run_sql(
            f"select scenario, {present['id']}, {columns}, {read}"
            f" from {project.test_schema}.{table}",
            fetch="all",
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
        for name, tracked in (("rows", None), ("tracked", ["a"])):
            versions = self.rows(project, f"{name}_history", form, "_seq, _seq_end")
            found = expected(changes, form, tracked)
            surplus, missing = set(versions) - found, found - set(versions)
            assert (surplus, missing) == (set(), set()), f"{name}, form {form}"
            assert len(versions) == len(found)
            living = sorted((v[0], v[3]) for v in found if v[2] is None)
            assert sorted((r[0], r[2]) for r in self.rows(project, f"{name}_final", form, "1")) == (
                living
            )
        alone = "alone_final where _cdc_deleted_at is null"
        living = {(v[0], v[3]) for v in expected(changes, form, []) if v[2] is None}
        assert {(r[0], r[2]) for r in self.rows(project, alone, form, "1")} == living

    def test_all_at_once(self, project: Any, spark: Any, package: None) -> None:
        draw = random.Random(20261122)
        arrivals: dict[int, list[Change]] = {n: [] for n in range(len(FORMS) * BATCHES)}
        for scenario in range(self.scenarios):
            for change in draw_changes(draw, scenario):
                on_time = change.position * BATCHES // STEP
                late = draw.random() < 0.3
                for _ in range(draw.choice([1, 1, 1, 2])):
                    batch = draw.randint(on_time, max(arrivals)) if late else on_time
                    arrivals[batch].append(change)
                    late = True
        raw = f"{project.test_schema}.changes"
        changes: dict[Change, int] = {}
        for batch, arriving in arrivals.items():
            form = batch // BATCHES
            if batch % BATCHES == 0:
                for path, text in declared(form).items():
                    write_file(text, project.project_root, path)
            rows = [(message(change), batch) for change in arriving]
            frame = spark.createDataFrame(rows, "value string, batch int")
            frame.coalesce(1).write.format("delta").mode("append").saveAsTable(raw)
            for change in arriving:
                changes.setdefault(change, form)
            run_dbt(BUILD)
            self.check(project, changes, form)
        self.stays(project, changes)

    def stays(self, project: Any, changes: dict[Change, int]) -> None:
        """Nothing more is written, the changes add up, a rebuild gives the same."""

        def rows(query: str) -> list[Any]:
            return project.run_sql(query.replace("{s}", project.test_schema), fetch="all")

        tables = ["rows_history", "tracked_history", "rows_final", "tracked_final", "alone_final"]
        versions = {t: rows(f"describe history {{s}}.{t} limit 1")[0][0] for t in tables}
        run_dbt([*BUILD, "--vars", "feed: true"])
        assert versions == {t: rows(f"describe history {{s}}.{t} limit 1")[0][0] for t in tables}
        columns = "scenario, key, aa, c, n, d, to_json(size), _cdc_seq"
        added = (
            f"select {columns} from {{s}}.rows_changes group by all"
            " having sum(if(_row_kind in ('+I', '+U'), 1, -1)) <> 0"
        )
        table = f"select {columns} from {{s}}.rows_final"
        assert rows(f"({added}) except all ({table})") == []
        assert rows(f"({table}) except all ({added})") == []

        # What was dropped is not in the declaration any more: it is NULL wherever it is read anew.
        run_dbt([*BUILD, "--full-refresh"])
        project.run_sql(f"alter table {project.test_schema}.alone_final add columns (d string)")
        self.check(project, dict.fromkeys(changes, len(FORMS) - 1), len(FORMS) - 1)
