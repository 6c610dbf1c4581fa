"""Whatever is done to a table: its changelog, read as `delta_cdf`, rebuilds each version of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from hypothesis import strategies as st

from tests.functional.draws import draw
from tests.functional.history.tables import FINAL, histories, rows

pytestmark = pytest.mark.extended

STEPS = 20
SEED = 20261123

THINGS = """
{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['id'],
    partition_by=['part'],
    tblproperties={'delta.enableChangeDataFeed': 'true'}
) }}
select 0 as id, '' as a, current_timestamp() as at, 0 as part where false
"""
FEED = """
{{ config(materialized='incremental', incremental_strategy='merge') }}
{{ cdc.changelog(ref('things')) }}
"""
SOURCES = """
version: 2
sources:
  - name: out
    schema: "{{ target.schema }}"
    tables:
      - name: things
        identifier: things_feed
        config:
          meta:
            cdc: {format: delta_cdf, keys: [id], operation: _row_kind, arrival: _commit_version}
        columns:
          - {name: id, data_type: int}
          - {name: a, data_type: string}
          - {name: at, data_type: timestamp}
          - {name: part, data_type: int}
"""
AS_OF = """
{{ config(materialized='table') }}
{% for version, time in var('commits', []) %}
{% set position = {'version': version, 'image': 1} %}
select {{ version }} as version, 'sequence' as how, id, a, at, part
from ({{ cdc.as_of(ref('rebuilt_history'), sequence=position) }}) as rows_then
union all
select {{ version }} as version, 'time' as how, id, a, at, part
from ({{ cdc.as_of(ref('rebuilt_history'), time) }}) as rows_then
{{ 'union all' if not loop.last }}
{% endfor %}
"""

# What is done to the table; `n` is drawn, `step` is a number of its own.
NEW = "select id, 'i{step}' as a, timestamp'2026-01-01' as at, id % 3 as part from values"
STATEMENTS = {
    "insert": "insert into {t} select new.* from ({new} ({n} % 12), (({n} + 5) % 12),"
    " (({n} + 7) % 12) as v (id)) as new left anti join {t} as known on new.id = known.id",
    "update": "update {t} set a = 'u{step}' where id % 3 = {n} % 3",
    "microseconds": "update {t} set at = timestampadd(microsecond, {step}, at) where id % 2 = 0",
    "move": "update {t} set part = (part + 1) % 3 where id % 4 = {n} % 4",
    "change key": "update {t} set id = 1000 + {step} where id = {n} % 12",
    "merge": "merge into {t} as old using ({new} ({n} % 12), (({n} + 1) % 12), (({n} + 2) % 12)"
    " as v (id)) as new on old.id = new.id when matched and old.id % 2 = 0 then delete"
    " when matched then update set * when not matched then insert *",
    "delete": "delete from {t} where id % 5 = {n} % 5",
    "delete files": "delete from {t} where part = {n} % 3",
    "delete all": "delete from {t}",
    "replace": "insert into {t} replace where part = {n} % 3"
    " select id, if(id % 2 = 0, a, 'r{step}'), at, part from {t} where part = {n} % 3",
    "overwrite": "insert overwrite {t} select * from {t} where id % 7 <> {n} % 7",
    "nothing": "update {t} set a = a where id % 2 = 0",
    "optimize": "optimize {t}",
    "purge": "reorg table {t} apply (purge)",
    "restore": "restore table {t} to version as of {former}",
    "vectors": "alter table {t} set tblproperties ('delta.enableDeletionVectors' = '{vectors}')",
}
QUIET = ("OPTIMIZE", "REORG", "SET TBLPROPERTIES")
# Each once, and then whatever is drawn.
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(sorted(STATEMENTS)), st.integers(0, 999)),
    min_size=STEPS - len(STATEMENTS),
    max_size=STEPS - len(STATEMENTS),
)


class TestRoundTrip:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "things.sql": THINGS,
            "things_feed.sql": FEED,
            "stg_things.sql": "{{ cdc.events(source('out', 'things')) }}",
            "rebuilt.sql": FINAL.format(read="rebuilt_history"),
            "former.sql": AS_OF,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(rebuilt_history="stg_things")

    def version(self, project: Any) -> int:
        return int(rows(project, "describe history {s}.things limit 1")[0][0])

    def operate(self, project: Any, kind: str, n: int, step: int) -> None:
        version = self.version(project)
        statement = STATEMENTS[kind].format(
            t=f"{project.test_schema}.things",
            new=NEW.format(step=step),
            n=n,
            step=step,
            former=max(1, version - 1 - n % 5),
            vectors=str(n % 2 == 0).lower(),
        )
        project.run_sql(statement)

    def rebuild(self, project: Any) -> None:
        run_dbt(["run", "--select", "things_feed"])
        run_dbt(["build", "--select", "stg_things", "rebuilt_history", "rebuilt"])
        columns = "id, a, at, part"
        rebuilt = f"select {columns} from {{s}}.rebuilt"
        things = f"select {columns} from {{s}}.things"
        assert rows(project, f"({rebuilt}) except all ({things})") == []
        assert rows(project, f"({things}) except all ({rebuilt})") == []

    @pytest.mark.usefixtures("package")
    def test_any_sequence_of_operations(self, project: Any) -> None:
        run_dbt(["run", "--select", "things"])
        drawn = draw(OPERATIONS, 3, SEED)[-1]
        # Every kind has rows to work on, and is followed by others.
        kinds = ["insert", *(kind for kind in STATEMENTS if kind != "insert")]
        operations = [(kind, 7 * number) for number, kind in enumerate(kinds)] + drawn
        for step, (kind, n) in enumerate(operations):
            if step % 4 == 1:
                self.operate(project, "insert", 5 * step, step)
            self.operate(project, kind, n, step)
            if step == len(operations) // 2:
                self.rebuild(project)
        print("\n".join(map(str, operations)))
        self.rebuild(project)

        # No row goes out that is what it was, and none of a row twice.
        unpaired = (
            "select _commit_version, id from {s}.things_feed group by all"
            " having array_join(array_sort(collect_list(_row_kind)), '')"
            " not in ('+I', '-D', '+U-U') or count(distinct a, at, part) < count(*)"
        )
        assert rows(project, unpaired) == []
        commits = rows(project, "describe history {s}.things")
        times = {row[0]: str(row[1]) for row in commits}
        quiet = {row[0] for row in commits if row[4] in QUIET}
        emitting = {v for (v,) in rows(project, "select _commit_version from {s}.things_feed")}
        assert quiet and not quiet & emitting

        # The history that is made of the changes knows each version of the table.
        asked = [[version, times[version]] for version in sorted(times) if version > 0]
        run_dbt(["run", "--select", "former", "--vars", json.dumps({"commits": asked})])
        then = "select id, a, at, part from {{s}}.things version as of {}"
        expected = {(v, *row) for v, _ in asked for row in rows(project, then.format(v))}
        former = "select * except (how) from {{s}}.former where how = '{}'"
        for how in ("sequence", "time"):
            found = set(rows(project, former.format(how)))
            assert found == expected, (how, sorted(found ^ expected, key=str)[:5])


# What the embedded Spark's adapter does in its own way goes the way of every other adapter.
PORTABLE = """
{% macro sparkcdc__updates_itself() %}{{ return(false) }}{% endmacro %}
{% macro sparkcdc__step(spec, name, sql, few, scans_table) %}
  {{ return(cdc.default__step(spec, name, sql, few, scans_table)) }}
{% endmacro %}
{% macro sparkcdc__write_changes(spec, write) %}
  {{ return(cdc.default__write_changes(spec, write)) }}
{% endmacro %}
{% macro sparkcdc__newest_commits(relation, limit) %}
  {{ return(cdc.default__newest_commits(relation, limit)) }}
{% endmacro %}
{% macro sparkcdc__commit_id(relation, version) %}
  {{ return(cdc.default__commit_id(relation, version)) }}
{% endmacro %}
"""


class TestPortableConsumer:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        own = {"macro_namespace": "cdc", "search_order": ["test", "cdc"]}
        return project_config_update | {"dispatch": [*project_config_update["dispatch"], own]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"things.sql": THINGS, "things_feed.sql": FEED}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"portable.sql": PORTABLE}

    @pytest.mark.usefixtures("package")
    def test_appends_what_is_new(self, project: Any) -> None:
        run_dbt(["run"])
        things = f"{project.test_schema}.things"
        changes = "select _commit_version, _row_kind, id, a from {s}.things_feed order by all"
        project.run_sql(f"insert into {things} select 1, 'x', null, 0")
        for _ in range(2):
            run_dbt(["run", "--select", "things_feed"])
            assert rows(project, changes) == [(1, "+I", 1, "x")]
        project.run_sql(f"update {things} set a = 'y'")
        project.run_sql(f"optimize {things}")
        project.run_sql(f"delete from {things}")
        project.run_sql(f"alter table {things} add columns (c int)")
        project.run_sql(f"insert into {things} select 2, 'z', null, 0, 5")
        run_dbt(["run", "--select", "things_feed"])
        known = rows(project, changes)
        assert [row[1:] for row in known] == [
            ("+I", 1, "x"),
            ("+U", 1, "y"),
            ("-U", 1, "x"),
            ("-D", 1, "y"),
            ("+I", 2, "z"),
        ]
        assert rows(project, "select c from {s}.things_feed where id = 2") == [(5,)]

        # A table of the same name is another one; a consumer without a checkpoint knows nothing.
        project.run_sql(f"drop table {things}")
        run_dbt(["run", "--select", "things"])
        for n in range(8):
            project.run_sql(f"insert into {things} select {n}, 'x', null, 0")
        results = run_dbt(["run", "--select", "things_feed"], expect_pass=False)
        assert any("has been dropped and built again" in str(result.message) for result in results)
        project.run_sql(f"restore table {things}_feed to version as of 0")
        project.run_sql(f"insert into {things}_feed select * from {things}_feed version as of 1")
        results = run_dbt(["run", "--select", "things_feed"], expect_pass=False)
        assert any("has lost its checkpoint" in str(result.message) for result in results)
        assert rows(project, changes) == known[:1]
        run_dbt(["run", "--select", "things_feed", "--full-refresh"])
        assert len(rows(project, changes)) == 8
