"""dbt's own flags, configs and commands on tables of the package: docs/dbt_features.md."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import CompilationError

from tests.functional.history.tables import histories, rows

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema | replace('_dev', '') }}}}"
    config:
      meta:
        cdc: {{format: flagged, keys: [id], sequence_by: seq, operation: op, event_time: at,
          arrival: batch}}
    tables:
      - name: items
        identifier: changes
        config: {{event_time: at}}
        columns: &columns
          - {{name: id, data_type: int}}
          - {{name: a, data_type: string}}
          {more}
      - name: alone
        identifier: changes
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
"""
FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']{more}) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""
FEED = """
{{ config(materialized='incremental', incremental_strategy='merge') }}
{{ cdc.changelog(ref('items_final')) }}
"""
# Spark keeps no view of a change feed.
CLOSED = "{{ config(materialized='table') }}{{ cdc.changelog(ref('items_history')) }}"
DAILY = """
{{ config(
    materialized='incremental', incremental_strategy='microbatch', event_time='day',
    begin='2026-01-01', batch_size='day', partition_by=['day']
) }}
select cast(_cdc_updated_at as date) as day, count(*) as items
from {{ ref('items_final') }}
group by all
"""
MODELS = """
version: 2
models:
  - name: items_final
    description: What there is now.
    config:
      contract: {{enforced: true}}
      event_time: _cdc_updated_at
      persist_docs: {{relation: true, columns: true}}
      pre_hook: "insert into {{{{ target.schema }}}}.noted values ('before')"
      post_hook: >
        insert into {{{{ target.schema }}}}.noted
        select concat('after ', count(*)) from {{{{ this }}}}
      {grants}
    constraints:
      - {{type: check, name: sound, expression: "a <> 'unsound'"}}
    columns:
      - {{name: id, data_type: int, description: "Whose it's."{column}}}
      - {{name: a, data_type: string}}
      - {{name: _cdc_created_at, data_type: timestamp}}
      - {{name: _cdc_updated_at, data_type: timestamp}}
      - {{name: _cdc_seq, data_type: int}}
unit_tests:
  - name: an_open_version_is_a_row
    model: items_final
    overrides: {{macros: {{is_incremental: false}}}}
    given:
      - input: ref('items_history')
        rows:
          - {{id: 1, a: x, _seq: 1, _seq_end: 2, _cdc_seq: 1, _cdc_is_latest: false}}
          - {{id: 1, a: y, _seq: 2, _cdc_seq: 2, _cdc_is_latest: true}}
    expect:
      rows: [{{id: 1, a: y, _cdc_seq: 2}}]
"""
BUILD = ("build", "--exclude", "items_daily", "--exclude-resource-type", "unit_test")
TABLES = ("items_history", "items_final", "alone_final")
BATCHES = {
    1: "(1, 'I', 1, 'x', 1), (2, 'I', 2, 'y', 1), (9, 'W', 2, 'bad', 1)",
    2: "(1, 'U', 3, 'z', 2), (3, 'I', 4, 'new', 2)",
    3: "(2, 'D', 5, null, 3), (3, 'U', 6, 'unsound', 3)",
    4: "(4, 'I', 7, 'four', 4), (1, 'U', 2, 'late', 4)",
}
AFTER = {
    1: [(1, "x"), (2, "y")],
    2: [(1, "z"), (2, "y"), (3, "new")],
    3: [(1, "z"), (3, "unsound")],
    4: [(1, "z"), (3, "unsound"), (4, "four")],
}


class TestDbtFeatures:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+file_format": "delta", "+on_schema_change": "append_new_columns"},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
            "on-run-start": ["{{ cdc.validate() }}"],
        }

    @pytest.fixture(scope="class")
    def profiles_config_update(
        self, unique_schema: str, dbt_profile_target: dict[str, Any]
    ) -> dict[str, Any]:
        outputs = {
            "prod": {**dbt_profile_target, "schema": unique_schema},
            "dev": {**dbt_profile_target, "schema": f"{unique_schema}_dev"},
        }
        return {"test": {"outputs": outputs, "target": "prod"}}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.format(more=""),
            "models.yml": MODELS.format(grants="", column=""),
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "items_final.sql": FINAL.format(read="items_history", more=""),
            "alone_final.sql": FINAL.format(read="stg_alone", more=""),
            "items_daily.sql": DAILY,
            "items_quarantine.sql": "{{ cdc.quarantine(source('app', 'items')) }}",
            "items_feed.sql": FEED,
            "items_closed.sql": CLOSED,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    def arrive(self, project: Any, batch: int) -> None:
        project.run_sql(
            f"insert into {project.test_schema}.changes"
            " select *, timestamp '2026-01-01' + make_interval(0, 0, 0, seq - 1)"
            f" from values {BATCHES[batch]} as events (id, op, seq, a, batch)"
        )

    def versions(self, project: Any) -> list[int]:
        return [rows(project, f"describe history {{s}}.{name} limit 1")[0][0] for name in TABLES]

    def check(self, project: Any, batch: int, schema: str = "{s}") -> None:
        """All tables are what the events so far make."""
        living = "where _cdc_deleted_at is null"
        for table in (
            "items_final",
            f"alone_final {living}",
            "items_history where dbt_valid_to is null",
        ):
            found = rows(project, f"select id, a from {schema}.{table} order by id")
            assert found == AFTER[batch], table

    def check_feeds(self, project: Any, batch: int, *feeds: str) -> None:
        """The changes add up to the table, and the quarantine has the bad event."""
        for feed in feeds:
            gained = "sum(if(_row_kind in ('+I', '+U'), 1, -1))"
            query = f"select id, a from {{s}}.{feed} group by all having {gained} > 0 order by id"
            assert rows(project, query) == AFTER[batch], feed
        reasons = rows(project, "select _reason from {s}.items_quarantine")
        assert reasons == [("unknown operation W",)]

    def noted(self, project: Any) -> list[str]:
        found = rows(project, "select note from {s}.noted order by note")
        project.run_sql(f"delete from {project.test_schema}.noted")
        return [row[0] for row in found]

    def failed(self, *arguments: str) -> dict[str, str]:
        """Runs dbt, which must fail; returns what each failed node says."""
        results = run_dbt(list(arguments), expect_pass=False)
        return {
            r.node.name: str(r.message)
            for r in results
            if str(r.status) in ("error", "runtime error")
        }

    @pytest.fixture(scope="class")
    def dbt_project(self, project: Any) -> Any:
        """The project with the package, a raw table, and a table for its hooks."""
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        schema = project.test_schema
        project.run_sql(
            f"create table {schema}.changes (id int, op string, seq int, a string, batch int,"
            " at timestamp) using delta"
        )
        for name in (schema, f"{schema}_dev"):
            project.run_sql(f"create schema if not exists {name}")
            project.run_sql(f"create table {name}.noted (note string) using delta")
        return project

    def test_what_only_a_server_can_do_is_refused_before_a_table_is_there(
        self, dbt_project: Any
    ) -> None:
        self.arrive(dbt_project, 1)
        grants, column = "grants: {select: [somebody]}", ", constraints: [{type: not_null}]"
        models = Path(dbt_project.project_root) / "models" / "models.yml"
        models.write_text(MODELS.format(grants=grants, column=column))
        with pytest.raises(CompilationError) as refusal:
            run_dbt(["build"])
        models.write_text(MODELS.format(grants="", column=""))
        assert "- items_final: it has `grants`" in str(refusal.value)
        assert "- items_final: `id` has the constraint `not_null`" in str(refusal.value)
        assert "2 problem(s)" in str(refusal.value)
        tables = {row[1] for row in rows(dbt_project, "show tables in {s}")}
        assert tables == {"changes", "noted"}

    def test_a_contract_constraints_docs_hooks_and_a_microbatch_neighbor(
        self, dbt_project: Any
    ) -> None:
        window = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-05"]
        run_dbt(["build", *window])
        self.check(dbt_project, 1)
        assert self.noted(dbt_project) == ["after 2", "before"]
        described = {
            row[0]: row for row in rows(dbt_project, "describe table extended {s}.items_final")
        }
        assert described["id"][2] == "Whose it's."
        assert described["Comment"][1] == "What there is now."
        days = "select cast(day as string), items from {s}.items_daily order by day"
        assert rows(dbt_project, days) == [("2026-01-01", 1), ("2026-01-02", 1)]

        self.arrive(dbt_project, 2)
        run_dbt(["build", *window, "--exclude-resource-type", "unit_test"])
        self.check(dbt_project, 2)
        self.check_feeds(dbt_project, 2, "items_feed")
        assert self.noted(dbt_project) == ["after 3", "before"]
        found = rows(dbt_project, days)
        assert found[-3:] == [("2026-01-02", 1), ("2026-01-03", 1), ("2026-01-04", 1)]
        properties = {
            row[0]: row[1] for row in rows(dbt_project, "show tblproperties {s}.items_final")
        }
        assert properties["delta.constraints.sound"] == "a <> 'unsound'"

    def test_looking_writes_nothing(self, dbt_project: Any) -> None:
        before = self.versions(dbt_project)
        run_dbt(["compile"])
        catalog = run_dbt(["docs", "generate"])
        columns = {node.metadata.name: set(node.columns) for node in catalog.nodes.values()}
        assert {"_reason", "_payload", "_origin", "_arrived"} == columns["items_quarantine"]
        assert {"a", "_row_kind", "_commit_version"} <= columns["items_feed"]
        assert {"a", "_row_kind", "_commit_version"} <= columns["items_closed"]
        tables, feeds = ["items_final", "alone_final"], ["items_feed", "items_closed"]
        results = run_dbt(
            ["show", "--limit", "20", "--select", *tables, *feeds, "items_quarantine"]
        ).results
        shown = {result.node.name: result.agate_table.rows for result in results}
        for name in tables:
            assert sorted(row["a"] for row in shown[name]) == ["new", "y", "z"]
        for name in feeds:
            assert {row["_row_kind"] for row in shown[name]} == {"+I", "-U", "+U"}
        assert [row["_reason"] for row in shown["items_quarantine"]] == ["unknown operation W"]
        query = "select id from {{ ref('items_history') }} where dbt_valid_to is not null"
        results = run_dbt(["show", "--inline", query])
        assert [int(row[0]) for row in results.results[0].agate_table.rows] == [1]
        assert self.versions(dbt_project) == before

    def test_a_part_of_the_events_changes_nothing(self, dbt_project: Any) -> None:
        before = self.versions(dbt_project)
        for number, flags in enumerate((["--empty"], ["--sample", "1 day"])):
            # A consumer whose first build is this one.
            write_file(FEED, dbt_project.project_root, "models", f"items_feed_{number}.sql")
            run_dbt([*BUILD, *flags])
            assert rows(dbt_project, "select * from {s}.items_quarantine") == []
        for table, version in zip(TABLES, before, strict=True):
            changed = rows(dbt_project, f"describe history {{s}}.{table}")
            later = [row for row in changed if row[0] > version]
            assert {row[4] for row in later} <= {"CHANGE COLUMN", "SET TBLPROPERTIES"}, table
        self.check(dbt_project, 2)
        self.noted(dbt_project)

    def test_a_violated_constraint_stops_and_retry_goes_on(self, dbt_project: Any) -> None:
        self.arrive(dbt_project, 3)
        failed = self.failed(*BUILD)
        assert set(failed) == {"items_final"}
        assert "sound" in failed["items_final"] and "CHECK" in failed["items_final"].upper()
        assert rows(dbt_project, "select id, a from {s}.items_final order by id") == AFTER[2]
        dbt_project.run_sql(
            f"alter table {dbt_project.test_schema}.items_final drop constraint sound"
        )
        results = run_dbt(["retry"])
        retried = [r.node.name for r in results if r.node.resource_type == "model"]
        feeds = ["items_feed", "items_feed_0", "items_feed_1"]
        assert retried[0] == "items_final" and sorted(retried[1:]) == feeds
        self.check(dbt_project, 3)
        # Those that began with a part of the events have all that came before as well.
        self.check_feeds(dbt_project, 3, *feeds)

    def test_defer_and_clone(self, dbt_project: Any) -> None:
        state = Path(dbt_project.project_root) / "state"
        shutil.copytree(Path(dbt_project.project_root) / "target", state)
        dev, deferred = ["--target", "dev"], ["--defer", "--state", str(state)]

        # A history may read the staging view of production; a final table has its own history.
        failed = self.failed("build", "--select", "items_final", *dev, *deferred)
        message = " ".join(failed["items_final"].split())
        assert f"`--defer` makes it read {dbt_project.test_schema}.items_history" in message
        assert "dbt clone --select items_history" in message
        assert not rows(dbt_project, "show tables in {s}_dev like 'items_final'")

        run_dbt(["clone", "--state", str(state), *dev, "--select", *TABLES])
        self.check(dbt_project, 3, "{s}_dev")
        self.arrive(dbt_project, 4)
        run_dbt(["snapshot", *dev, *deferred])
        run_dbt(["run", "--select", "stg_alone", "alone_final", "items_final", *dev])
        self.check(dbt_project, 4, "{s}_dev")
        # Production is as it was.
        self.check(dbt_project, 3)

    def test_state_modified_sees_declarations(self, dbt_project: Any) -> None:
        listed = [
            "ls",
            "--select",
            "state:modified+",
            "--state",
            "state",
            "--resource-type",
            "model",
        ]
        assert run_dbt(listed) == []
        text = SOURCES.format(more="").replace(
            "history: false", "history: false, on_bad_event: fail"
        )
        write_file(text, dbt_project.project_root, "models", "sources.yml")
        assert run_dbt(listed) == ["test.alone_final", "test.stg_alone"]
        # dbt compares no columns of sources.
        text = SOURCES.format(more="- {name: b, data_type: string}")
        write_file(text, dbt_project.project_root, "models", "sources.yml")
        assert run_dbt(listed) == []

    def test_a_broken_contract_is_refused(self, dbt_project: Any) -> None:
        """The column b is declared by now, and the contract knows nothing of it."""
        dbt_project.run_sql(f"alter table {dbt_project.test_schema}.changes add columns (b string)")
        before = self.versions(dbt_project)[1]
        failed = self.failed(*BUILD)
        assert set(failed) == {"items_final"}
        assert "enforced contract" in failed["items_final"] and "| b " in failed["items_final"]
        assert self.versions(dbt_project)[1] == before
        assert rows(dbt_project, "select id, a, b from {s}.alone_final where id = 4") == [
            (4, "four", None)
        ]
