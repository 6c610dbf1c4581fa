"""What is wrong is said, and kept: declarations, events, and a table that no longer fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError

from tests.functional.history.tables import FINAL, histories

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: orders
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              operation: flag
              track_history_columns: [state]
        columns:
          - {name: id, data_type: bigint}
          - {name: state, data_type: string}
          - {name: price, data_type: "decimal(6,2)"}
"""

BROKEN = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: orders
        config: {meta: {cdc: {format: debezum, key: [id], keys: [nr], on_bad_event: drop}}}
        columns:
          - {name: id, data_type: bigit}
          - {name: state}
          - {name: _seq, data_type: int}
          - {name: is open, data_type: boolean}
          - {name: a`b, data_type: int}
"""


class TestBadInput:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-start": ["{{ cdc.validate() }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_orders.sql": "{{ cdc.events(source('app', 'orders')) }}",
            "orders_quarantine.sql": "{{ cdc.quarantine(source('app', 'orders')) }}",
            "orders_final.sql": FINAL.format(read="orders_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(orders_history="stg_orders")

    def test_bad_events_and_bad_declarations(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        schema = project.test_schema
        project.run_sql(
            f"create table {schema}.orders (id string, state string, price string, seq int,"
            " flag string) using delta"
        )
        project.run_sql(
            f"insert into {schema}.orders values ('1', 'new', '12.50', 1, ' i '),"
            " ('2', 'new', '1.255', 2, 'I'), (null, 'new', '1', 3, 'I'),"
            " ('3', 'x', '1', null, 'U'),"
            " ('4', 'x', '1', 4, 'W'), ('five', 'x', '99999', 5, 'U'), ('1', 'paid', '13', 6, 'u')"
        )
        run_dbt(["build"])
        reasons = project.run_sql(
            f"select _reason from {schema}.orders_quarantine order by 1", fetch="all"
        )
        assert [row[0] for row in reasons] == [
            "column id: five is not a bigint; column price: 99999 is not a decimal(6,2)",
            "column price: 1.255 is not a decimal(6,2)",
            "no sequence",
            "no value for key column id",
            "unknown operation W",
        ]
        rows = project.run_sql(f"select id, state, price from {schema}.orders_final", fetch="all")
        assert [(row[0], row[1], str(row[2])) for row in rows] == [(1, "paid", "13.00")]

        # Other tracked columns would need another history: refused, nothing written.
        commits = f"describe history {schema}.orders_history"
        before = project.run_sql(commits, fetch="all")
        write_file(
            SOURCES.replace("[state]", "[price]"), project.project_root, "models", "sources.yml"
        )
        project.run_sql(f"insert into {schema}.orders values ('1', 'sent', '13', 7, 'U')")
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "was built with cdc.tracked `state`, it is now declared as `price`" in log
        assert project.run_sql(commits, fetch="all") == before

        # Fail instead of quarantine: nothing written either.
        write_file(
            SOURCES.replace(
                "operation: flag",
                "operation: flag\n              on_bad_event: fail\n"
                "              origin: concat('line ', coalesce(seq, 0))",
            ),
            project.project_root,
            "models",
            "sources.yml",
        )
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "app.orders has bad events and declares `on_bad_event: fail`" in log
        assert "  - no sequence: 1 event, the first at line 0" in log
        assert "  - unknown operation W: 1 event, the first at line 4" in log
        assert project.run_sql(commits, fetch="all") == before

        # All that is wrong with a declaration comes at once, with table, column and way out.
        write_file(BROKEN, project.project_root, "models", "sources.yml")
        with pytest.raises(CompilationError) as refusal:
            run_dbt(["build"])
        for message in (
            "unknown option `key`. The options are format, keys",
            "unknown format `debezum`. The formats are change_event, flagged, debezium,",
            "column `id` has the data_type `bigit`, which Spark does not have.",
            "column `state` has no data_type.",
            "column `_seq` has a name that the package uses itself.",
            "column `is open` has a character that Delta does not allow in names",
            "key column `nr` is not among the declared columns (id, state, _seq, is open, a`b).",
            "column `a`b` has a character that Delta does not allow in names",
            "`on_bad_event` is `drop`. Write `quarantine` (default) or `fail`.",
        ):
            assert f"app.orders (models/sources.yml): {message}" in str(refusal.value)
        assert project.run_sql(commits, fetch="all") == before


MOVED = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: items
        config: {meta: {cdc: {format: maxwell, keys: [id], arrival: batch}}}
        columns: [{name: id, data_type: int}, {name: a, data_type: string}]
      - name: scores
        config: {meta: {cdc: {format: flagged, keys: [id], operation: op, sequence_by: at}}}
        columns: [{name: id, data_type: int}, {name: a, data_type: string}]
"""


class TestAnotherOrder:
    """Positions of one type that do not compare: later events would stand before all others."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        names = ("items", "scores")
        return {
            "sources.yml": MOVED,
            **{f"stg_{n}.sql": f"{{{{ cdc.events(source('app', '{n}')) }}}}" for n in names},
            **{f"{n}_final.sql": FINAL.format(read=f"{n}_history") for n in names},
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items", scores_history="stg_scores")

    def test_another_order_is_refused(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        schema = project.test_schema
        project.run_sql(f"create table {schema}.items (value string, batch int) using delta")
        project.run_sql(
            f"insert into {schema}.items values ('"
            '{{"database":"d","table":"t","type":"insert","ts":1600000000,"xid":1,"commit":true,'
            '"position":"bin.000001:4","data":{{"id":1,"a":"old"}}}}'
            "', 1)"
        )
        project.run_sql(
            f"create table {schema}.scores (id int, a string, op string, at bigint, nr bigint)"
            " using delta"
        )
        project.run_sql(f"insert into {schema}.scores values (1, 'old', 'I', 1000, 1)")
        run_dbt(["build"])
        tables = ("items", "scores")
        before = [
            project.run_sql(f"describe history {schema}.{n}_history", fetch="all") for n in tables
        ]
        # The same table by another connector, and by another number.
        text = MOVED.replace("format: maxwell", "format: debezium")
        write_file(
            text.replace("sequence_by: at", "sequence_by: nr"),
            project.project_root,
            "models",
            "sources.yml",
        )
        project.run_sql(
            f"insert into {schema}.items values ('"
            '{{"op":"u","before":{{"id":1,"a":"old"}},"after":{{"id":1,"a":"new"}},"source":'
            '{{"ts_ms":1700000000000,"file":"bin.000002","pos":4,"row":0}}}}'
            "', 2)"
        )
        project.run_sql(f"insert into {schema}.scores values (1, 'new', 'U', 2000, 2)")
        results = run_dbt(["build"], expect_pass=False)
        said = {result.node.name: str(result.message) for result in results}
        assert (
            "was built with cdc.sequence_by `the order of maxwell`, it is now declared as"
            " `the order of debezium`" in said["items_history"]
        )
        assert (
            "was built with cdc.sequence_by `at`, it is now declared as `nr`"
            in said["scores_history"]
        )
        for name, commits in zip(tables, before, strict=True):
            query = f"describe history {schema}.{name}_history"
            assert project.run_sql(query, fetch="all") == commits

        # Who knows that the positions are the same says so.
        project.run_sql(
            f"alter table {schema}.scores_history"
            " set tblproperties ('cdc.sequence_by' = 'try_cast(at as bigint)')"
        )
        write_file(
            MOVED.replace("sequence_by: at", "sequence_by: try_cast(at as bigint)"),
            project.project_root,
            "models",
            "sources.yml",
        )
        run_dbt(["build", "--select", "+scores_final"])
        found = project.run_sql(f"select id, a from {schema}.scores_final", fetch="all")
        assert [tuple(row) for row in found] == [(1, "new")]


class TestBatchOrder:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        ordered = "track_history_columns: [state]\n              batch_order: nr\n"
        ordered += "              arrival: batch"
        return {
            "sources.yml": SOURCES.replace("track_history_columns: [state]", ordered),
            "stg_orders.sql": "{{ cdc.events(source('app', 'orders')) }}",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(orders_history="stg_orders")

    def test_missing_and_repeated_batches_are_refused(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        orders, history = (f"{project.test_schema}.{name}" for name in ("orders", "orders_history"))
        project.run_sql(
            f"create table {orders} (id bigint, state string, price string, seq int, flag string,"
            " nr int, batch int) using delta"
        )

        def arrives(number: int, batch: int) -> None:
            row = f"(1, 's{number}', '1', {number}, 'U', {number}, {batch})"
            project.run_sql(f"insert into {orders} values {row}")

        def versions() -> int:
            return len(project.run_sql(f"select * from {history}", fetch="all"))

        arrives(1, 1)
        run_dbt(["build"])
        arrives(3, 2)
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "app.orders lacks a batch between 1 and 3" in log
        assert versions() == 1
        arrives(2, 3)
        run_dbt(["build"])
        assert versions() == 3
        # Rows that come back were appended, and are batches that were read.
        version = project.run_sql(f"describe history {orders} limit 1", fetch="all")[0][0]
        project.run_sql(f"delete from {orders} where batch >= 2")
        project.run_sql(f"restore table {orders} to version as of {version}")
        replay = "{table: orders_history, since: 2}"
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "app.orders brings batch 2 again, after batch 3" in log
        assert f"cdc_replay --args '{replay}'" in log
        # Batches that somebody wants read again are no repetition.
        run_dbt(["run-operation", "cdc_replay", "--args", replay])
        run_dbt(["build"])
        assert versions() == 3
        arrives(2, 4)
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "app.orders brings batch 2 again, after batch 3" in log
        assert versions() == 3

        # A row without an arrival is a bad event like any other, although it is never a new one.
        project.run_sql(f"delete from {orders} where batch = 4")
        project.run_sql(f"insert into {orders} values (1, 's4', '1', 4, 'U', 4, null)")
        declared = Path(project.project_root, "models", "sources.yml")
        declared.write_text(declared.read_text().replace("batch_order: nr", "on_bad_event: fail"))
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        assert "  - no arrival: 1 event" in log
        assert versions() == 3
