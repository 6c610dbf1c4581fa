"""Names and values at the edge of what Spark and Delta take: the right rows, or a clear error."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: odd
        config: &config
          meta:
            cdc:
              format: flagged
              keys: ["Order-Nr", ratio]
              sequence_by: at
              operation: op
              arrival: batch
        columns: &columns
          - {name: "Order-Nr", data_type: string}
          - {name: ratio, data_type: double}
          - {name: select, data_type: "decimal(38,10)"}
          - {name: UPPER, data_type: timestamp}
          - {name: "Größe", data_type: string}
          - {name: source, data_type: date}
          - {name: a.b, data_type: int}
      - name: alone
        identifier: odd
        config: {meta: {cdc: {format: flagged, keys: ["Order-Nr", ratio], sequence_by: at,
          operation: op, arrival: batch, history: false}}}
        columns: *columns
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: odd_history
    relation: ref('stg_odd')
    config: {strategy: cdc.scd2, unique_key: ["Order-Nr", ratio], file_format: delta}
"""

FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['Order-Nr', 'ratio']
) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""

# Key, ratio: as SQL. Each stands for one row, however it is written.
KEYS = [
    ("'it''s'", "1.5D"),
    ("'back\\\\slash'", "1.5D"),
    ("'日本語 🙂 é'", "1.5D"),
    ("''", "1.5D"),
    # What could be taken for control: a variable of Spark, which run_sql must not replace either,
    # and a comment that told a build of an early version that it had nothing to do.
    ("concat('$', '{{env:HOME}}')", "1.5D"),
    ("'-- cdc: nothing new'", "1.5D"),
    ("'nan'", "double('NaN')"),
    ("'zero'", "-0.0D"),
    ("'infinity'", "double('-Infinity')"),
    ("'tiny'", "4.9E-324D"),
]
LIMIT = "9" * 28 + "." + "9" * 10


def values(key: str, ratio: str, day: int, *, op: str = "U", text: str = "'a'") -> str:
    return (
        f"(1, {key}, {ratio}, -{LIMIT}BD, timestamp'1582-10-15 00:00:00 -09:17:02', {text},"
        f" date'0001-01-01', timestamp'1899-12-31 23:59:59.999999 +05:45' + interval {day} days,"
        f" '{op}'"
    )


class TestOddValues:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_odd.sql": "{{ cdc.events(source('app', 'odd')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "odd_final.sql": FINAL.format(read="odd_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    def put(self, project: Any, batch: int, *rows: str) -> None:
        arrived = ", ".join(f"{row}, {batch})" for row in rows)
        project.run_sql(f"insert into {project.test_schema}.odd values {arrived}")

    def test_odd_names_and_values(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        project.run_sql(
            f"create table {project.test_schema}.odd (`a.b` int, `Order-Nr` string, ratio double,"
            " `select` decimal(38, 10), UPPER timestamp, `Größe` string, source date,"
            " at timestamp, op string, batch int)"
            " using delta"
        )
        self.put(project, 1, *[values(key, ratio, 1, op="I") for key, ratio in KEYS])
        run_dbt(["build"])
        # The other zero is the same key; a delete that arrives before the insert; 10 MB of text.
        updates = [values(key, ratio.replace("-0.0", "0.0"), 3, text="'b'") for key, ratio in KEYS]
        long = "repeat('ä', 5 * 1024 * 1024)"
        self.put(project, 2, *updates, values("'gone'", "1.5D", 9, op="D"))
        run_dbt(["build"])
        self.put(
            project,
            3,
            values("'gone'", "1.5D", 4, op="I"),
            values("'zero'", "-0.0D", 2, text=long),
            values(*KEYS[0], 10, op="D"),
        )
        run_dbt(["build"])

        def rows(query: str) -> list[tuple[Any, ...]]:
            return project.run_sql(query.format(schema=project.test_schema), fetch="all")

        for table in ("odd_final", "alone_final where _cdc_deleted_at is null"):
            assert rows(f"select count(*), count(distinct `Order-Nr`) from {{schema}}.{table}") == [
                (len(KEYS) - 1, len(KEYS) - 1)
            ]
            assert rows(
                "select distinct `select`, cast(UPPER as string), `Größe`, source, `a.b`"
                f" from {{schema}}.{table}"
            ) == rows(
                f"select cast('-{LIMIT}' as decimal(38, 10)), '1582-10-15 09:17:02', 'b',"
                " date'0001-01-01', 1"
            )
        assert rows(
            "select length(`Größe`), cast(_seq as string) from {schema}.odd_history"
            " where `Order-Nr` = 'zero' order by _seq"
        ) == [
            (1, "1900-01-01 18:14:59.999999"),
            (5 * 1024 * 1024, "1900-01-02 18:14:59.999999"),
            (1, "1900-01-03 18:14:59.999999"),
        ]
        assert rows(
            "select _seq_end is not null from {schema}.odd_history where `Order-Nr` = 'gone'"
        ) == [(True,)]
