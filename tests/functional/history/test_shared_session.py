"""Plain dbt-spark with `method: session`: all threads of a run share one Spark session.

A notebook that runs dbt shares it, too: what its user does to a table is done in that session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest
from dbt.tests.util import run_dbt
from pyspark.sql import SparkSession

from tests.conftest import SMALL
from tests.functional.history.tables import FINAL, histories, rows

TABLES = [f"t{number}" for number in range(1, 9)]
# The last two keep no history.
WITHOUT_HISTORY = TABLES[-2:]

# What a user does to tables between two builds.
BY_HAND = {
    "t1_history": "truncate table {t}",
    "t2_history": "restore table {t} to version as of 0",
    "t3_history": "delete from {t} where id = 1",
    "t4_history": "create table {t} shallow clone {s}.renamed version as of 0",
    "t5_history": "create or replace table {t} using delta as select * from {t} where id = 1",
    "t6": "truncate table {t}",
    "t7": "restore table {t} to version as of 0",
    "t8": "delete from {t} where id = 1",
}
# Those whose user acts while the session still has a checkpoint of the table, as it does after a
# build that created it last, or whose merge failed; and what that checkpoint was made for.
LEFT = {
    "t2_history": "MERGE",
    "t4_history": "TABLE AS SELECT",
    "t5_history": "TABLE AS SELECT",
    "t8": "MERGE",
}
METADATA = "spark.databricks.delta.commitInfo.userMetadata"

SOURCE = """
      - name: {table}
        identifier: raw_{table}
        config: {{meta: {{cdc: {{history: {history}}}}}}}
        columns: [{{name: id, data_type: bigint}}, {{name: a, data_type: string}}]
"""
SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config:
      meta:
        cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}
    tables:
""" + "".join(
    SOURCE.format(table=table, history=str(table not in WITHOUT_HISTORY).lower())
    for table in TABLES
)


@pytest.mark.soak
class TestSharedSession:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, credentials: Any) -> dict[str, Any]:
        """The session that is there: that of the tests' own Spark."""
        from dbt.adapters.sparkcdc.session.opening import close_session, open_session

        close_session(open_session(credentials))
        return {
            "type": "spark",
            "method": "session",
            "host": "here",
            "threads": 4,
            "server_side_parameters": {key: str(value).lower() for key, value in SMALL.items()},
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        files = {"sources.yml": SOURCES}
        for table in TABLES:
            read = f"stg_{table}" if table in WITHOUT_HISTORY else f"{table}_history"
            files[f"stg_{table}.sql"] = f"{{{{ cdc.events(source('app', '{table}')) }}}}"
            files[f"{table}.sql"] = FINAL.format(read=read)
        return files

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(
            **{
                f"{table}_history": f"stg_{table}"
                for table in TABLES
                if table not in WITHOUT_HISTORY
            }
        )

    @pytest.mark.usefixtures("package")
    def test_tables_of_one_shape_keep_their_own_rows(self, project: Any) -> None:
        def arrives(*events: str) -> None:
            for table in TABLES:
                values = ", ".join(events).replace("@", table)
                project.run_sql(f"insert into {project.test_schema}.raw_{table} values {values}")

        for table in TABLES:
            project.run_sql(
                f"create table {project.test_schema}.raw_{table}"
                " (id bigint, a string, b string, seq int, op string, batch int) using delta"
            )
        arrives("(1, '@', null, 1, 'I', 1), (2, '@', null, 2, 'I', 1), (3, '@', null, 3, 'I', 1)")
        run_dbt(["build"])
        # What a run that failed leaves in the session, where the next commit would pick it up.
        name = f"{project.test_schema}.{TABLES[0]}_history"
        left = json.dumps({"cdc": name, "read_to": 99}).replace("{", "{{").replace("}", "}}")
        project.run_sql(f"set spark.databricks.delta.commitInfo.userMetadata={left}")
        declared = Path(project.project_root) / "models" / "sources.yml"
        added = "{name: a, data_type: string}, {name: b, data_type: string}"
        declared.write_text(SOURCES.replace("{name: a, data_type: string}", added, 1))
        # A change, a new key, a delete and a late event.
        arrives(
            "(1, '@ b', null, 11, 'U', 2), (4, '@', null, 12, 'I', 2), (2, null, null, 13, 'D', 2)"
        )
        arrives("(3, '@ z', null, 2, 'U', 2)")
        run_dbt(["build"])
        self.check(project)
        self.act_by_hand(project)
        with self.void_checkpoint_lost_once(f"{project.test_schema}.t5_history") as lost:
            run_dbt(["build"])
        assert lost.is_set()
        self.check(project)
        self.amend(project)

    def amend(self, project: Any) -> None:
        """A key leaves a table with a history and one without, and stays away in a rebuild."""
        for table in (TABLES[0], WITHOUT_HISTORY[0]):
            for args in (
                {"where": "id = 3", "set": {"a": "'amended'"}},
                {"where": "id = 4", "delete": True},
            ):
                given = json.dumps(args | {"table": table, "dry_run": False})
                run_dbt(["run-operation", "cdc_amend", "--args", given])
                run_dbt(["build", "--select", f"+{table}"])
        for options in ([], ["--full-refresh"]):
            run_dbt(["build", *options])
            for table in (TABLES[0], WITHOUT_HISTORY[0]):
                living = " where _cdc_deleted_at is null" if table in WITHOUT_HISTORY else ""
                found = rows(project, f"select id, a from {{s}}.{table}{living} order by id")
                assert found == [(1, f"{table} b"), (3, "amended")], (table, options)

    @contextmanager
    def void_checkpoint_lost_once(self, table: str) -> Iterator[Event]:
        """Resets the setting once, as another node can, right after a void checkpoint is set."""
        settings = SparkSession.builder.getOrCreate().conf
        lost, ended = Event(), Event()

        def reset() -> None:
            while not ended.is_set() and not lost.is_set():
                found = json.loads(settings.get(METADATA, "") or "{}")
                if found == {"cdc": table, "operation": "SET TBLPROPERTIES"}:
                    settings.unset(METADATA)
                    lost.set()
                sleep(0.002)

        thread = Thread(target=reset)
        thread.start()
        try:
            yield lost
        finally:
            ended.set()
            thread.join()

    def check(self, project: Any) -> None:
        for table in TABLES:
            living = " where _cdc_deleted_at is null" if table in WITHOUT_HISTORY else ""
            assert rows(project, f"select id, a from {{s}}.{table}{living} order by id") == [
                (1, f"{table} b"),
                (3, table),
                (4, table),
            ], table
            if table not in WITHOUT_HISTORY:
                versions = f"select id, a, _seq, _seq_end from {{s}}.{table}_history order by 1, 3"
                assert rows(project, versions) == [
                    (1, table, 1, 11),
                    (1, f"{table} b", 11, None),
                    (2, table, 2, 13),
                    (3, f"{table} z", 2, 3),
                    (3, table, 3, None),
                    (4, table, 12, None),
                ], table

    def act_by_hand(self, project: Any) -> None:
        """What makes the checkpoint void, whatever the session had."""
        schema = project.test_schema
        project.run_sql(f"reset {METADATA}")
        project.run_sql(f"alter table {schema}.t4_history rename to {schema}.renamed")
        for name, statement in BY_HAND.items():
            table = f"{schema}.{name}"
            if name in LEFT:
                left = json.dumps({"cdc": table, "read_to": 2, "operation": LEFT[name]})
                escaped = left.replace("{", "{{").replace("}", "}}")
                project.run_sql(f"set {METADATA}={escaped}")
            project.run_sql(statement.replace("{t}", table).replace("{s}", schema))
            project.run_sql(f"reset {METADATA}")
            newest = rows(project, f"describe history {{s}}.{name} limit 1")
            assert bool(newest[0][-2]) == (name in LEFT), newest
