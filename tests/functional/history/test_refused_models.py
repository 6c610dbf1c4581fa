"""Models that would lose events, or whose options mean nothing, are refused."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt
from dbt_common.exceptions import CompilationError

from tests.functional.history.tables import FINAL, histories, rows

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op}}}
    tables:
      - &table
        name: east
        identifier: changes
        columns: [{name: id, data_type: int}, {name: a, data_type: string}]
      - {<<: *table, name: west}
      - {<<: *table, name: brief, config: {meta: {cdc: {history: false}}}}
"""
BOTH = "{{ cdc.events(source('app', 'east')) }} union all {{ cdc.events(source('app', 'west')) }}"
MISSED = "it reads events of app.east and app.west."
# Options of a snapshot, and hooks of tables that hold the state of their rows, by node.
ODD = {
    "dbt_valid_to_current": "date'9999-12-31'",
    "snapshot_meta_column_names": {"dbt_valid_from": "since"},
    "hard_deletes": "invalidate",
    "updated_at": "seq",
}
HOOK = "delete from {{ this }} where a = 'x'"
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="_event_id",
        file_format="iceberg",
    )
    return resolve_keys(dbt, session, dbt.ref("stg_east"))
"""
PROBLEMS = {
    "east_keys": ["it has `file_format: iceberg`, and it resolves the keys of app.east."],
    "stg_both": [MISSED],
    "both_history": [MISSED],
    "stacked_history": [MISSED],
    "odd_history": [f"it has `{option}`;" for option in ODD],
    "hooked_history": [f"its hook `{HOOK}` changes rows that later events are applied to."],
    "brief_final": [
        f"its hook `{HOOK}` changes rows that later events are applied to.",
        "it has `incremental_predicates`. A known row that they leave out would be",
    ],
}


@pytest.mark.usefixtures("package")
class TestRefusedModels:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        check = "{{ cdc.validate() if var('validated', true) }}"
        return project_config_update | {"on-run-start": [check]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        stacked = (
            "select * from {{ ref('stg_east') }} union all select * from {{ ref('stg_west') }}"
        )
        return {
            "sources.yml": SOURCES,
            "stg_east.sql": "{{ cdc.events(source('app', 'east')) }}",
            "stg_west.sql": "{{ cdc.events(source('app', 'west')) }}",
            "stg_brief.sql": "{{ cdc.events(source('app', 'brief')) }}",
            "stg_both.sql": BOTH,
            "stg_stacked.sql": stacked,
            "east_keys.py": KEYS,
            "east_final.sql": FINAL.format(read="east_history"),
            "brief_final.sql": f'{{{{ config(post_hook="{HOOK}") }}}}'
            + "{{ config(incremental_predicates=['a > 0']) }}"
            + FINAL.format(read="stg_brief"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        sound = histories(
            east_history="stg_east", both_history="stg_both", stacked_history="stg_stacked"
        )
        odd = histories(odd_history="stg_east", hooked_history="stg_east")["snapshots.yml"]
        options = "".join(f", {option}: {value!r}" for option, value in ODD.items())
        parts = odd.replace("version: 2\nsnapshots:\n", "").split("  - name: hooked")
        odd = parts[0].replace("file_format: delta", f"file_format: delta{options}")
        hooked = parts[1].replace("file_format: delta", f'file_format: delta, post_hook: "{HOOK}"')
        return {"snapshots.yml": f"{sound['snapshots.yml']}{odd}  - name: hooked{hooked}"}

    def test_each_with_its_remedy(self, project: Any) -> None:
        project.run_sql(
            f"create table {project.test_schema}.changes"
            " (id int, op string, seq int, a string) using delta"
        )
        project.run_sql(f"insert into {project.test_schema}.changes values (1, 'I', 1, 'x')")
        with pytest.raises(CompilationError) as refusal:
            run_dbt(["build"])
        said = str(refusal.value)
        for node, problems in PROBLEMS.items():
            for problem in problems:
                assert f"- {node}: {problem}" in said
        assert f"{sum(map(len, PROBLEMS.values()))} problem(s)" in said
        assert "`source_table: [app.east, app.west]`" in said

        # The same where nobody asks for the check of the whole project.
        results = run_dbt(["build", "--vars", "{validated: false}"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        for node, problems in PROBLEMS.items():
            if messages[node] != "None":  # skipped
                assert all(problem in messages[node] for problem in problems), messages[node]
        refused = {result.node.name for result in results if result.status == "error"}
        assert refused == set(PROBLEMS) - {"both_history"}
        built = {row[1] for row in rows(project, "show tables in {s}")}
        assert built == {
            *("changes", "stg_east", "stg_west", "stg_brief", "stg_stacked"),
            *("east_history", "east_final"),
        }
