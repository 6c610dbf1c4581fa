"""What the adapter adds to dbt-spark, on real Spark and Delta."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.delta import log as delta_log
from dbt.adapters.sparkcdc.jvm import metastore
from dbt.adapters.sparkcdc.tables.places import StoredPlace, place_of
from dbt.tests.util import run_dbt, run_dbt_and_capture

pytestmark = pytest.mark.extended

SEED = """\
id,big,name,amount,born,seen,ok,code
1,9223372036854775807,O'Brien,1.50,2020-02-29,2020-01-01 10:20:30.123456,true,007
2,9007199254740993,back\\slash 'n \\' %s {{ x }},-0.01,1969-12-31,1999-12-31 23:59:59,false,010
3,-9223372036854775808,Zoë 漢字 🎉,123456789012345678901234567.89,,,,
4,,"a ""quoted"", line",,,,,
"""

NULLS = "id,nothing\n1,\n2,\n"

PYTHON_TABLE = """\


import pandas as pd


def model(dbt, session):
    dbt.config(
        materialized="table",
        partition_by=["part"],
        tblproperties={"delta.appendOnly": "true"},
    )
    return pd.DataFrame({"part": ["a", "b", "a"], "value": [1, 2, 3]})
"""

PANDAS_ON_SPARK = """\
import pyspark.pandas as ps


def model(dbt, session):
    dbt.config(materialized="table")
    return ps.DataFrame({"value": [1, 2, 3]})
"""

PYTHON_OVERWRITE = """\
def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="insert_overwrite",
        partition_by="part",
    )
    rows = [("a", 1), ("b", 1)] if not dbt.is_incremental else [("b", 2)]
    return session.createDataFrame(rows, "part string, value int")
"""

PYTHON_APPEND = """\
def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append")
    return spark.range(2)
"""

PYTHON_STREAM = """\
def model(dbt, session):
    dbt.config(materialized="table")
    target = f"{dbt.this.schema}.stream_target"
    checkpoint = dbt.config.get("checkpoint")
    (
        session.readStream.table(f"{dbt.this.schema}.numbers")
        .writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .toTable(target)
        .awaitTermination()
    )
    return session.table(target).groupBy().count()
"""

STREAMED_YML = "models: [{name: streamed, config: {checkpoint: CHECKPOINT}}]"

PYTHON_BROKEN = """\

# A comment and a blank line first: the numbers below are those of the file.
def helper(session):
    return session.table("no_such_table")


def model(dbt, session):
    dbt.config(materialized="table")
    frame = helper(session)
    return frame
"""


def rows(project: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in project.run_sql(sql, fetch="all")]


class TestSeeds:
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {"exact.csv": SEED, "nulls.csv": NULLS, "none.csv": "id,name\n"}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        types = {"amount": "decimal(38,2)", "code": "string", "seen": "timestamp"}
        return {"seeds": {"+file_format": "delta", "test": {"exact": {"+column_types": types}}}}

    def test_every_value_survives(self, project: Any) -> None:
        run_dbt(["seed"])
        found = rows(
            project, "select id, big, name, amount, code, ok from {schema}.exact order by id"
        )
        assert found == [
            (1, 2**63 - 1, "O'Brien", Decimal("1.50"), "007", True),
            (2, 2**53 + 1, "back\\slash 'n \\' %s {{ x }}", Decimal("-0.01"), "010", False),
            (3, -(2**63), "Zoë 漢字 🎉", Decimal("123456789012345678901234567.89"), None, None),
            (4, None, 'a "quoted", line', None, None, None),
        ]
        dates = "select cast(born as string), cast(seen as string) from {schema}.exact order by id"
        assert rows(project, dates)[:3] == [
            ("2020-02-29", "2020-01-01 10:20:30.123456"),
            ("1969-12-31", "1999-12-31 23:59:59"),
            (None, None),
        ]
        assert rows(project, "select count(nothing), count(*) from {schema}.nulls") == [(0, 2)]
        assert rows(project, "select count(*) from {schema}.none") == [(0,)]
        # A second run replaces, in one commit that readers never see half of.
        run_dbt(["seed"])
        assert rows(project, "select count(*) from {schema}.exact") == [(4,)]
        history = rows(project, "describe history {schema}.exact")
        assert len(history) == 2


class TestHooks:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        hook = "{{ config(materialized='table', pre_hook=\"%s\") }} select 1 as id"
        return {
            "guarded.sql": hook % "select assert_true(1 > 2, 'orders are empty')",
            "passing.sql": hook % "select assert_true(2 > 1)",
        }

    def test_a_query_in_a_hook_runs(self, project: Any) -> None:
        results, output = run_dbt_and_capture(["run"], expect_pass=False)
        status = {result.node.name: str(result.status) for result in results}
        assert status == {"guarded": "error", "passing": "success"}
        assert "orders are empty" in output
        assert "\tat org.apache" not in output


class TestPythonModels:
    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        checkpoint = tmp_path_factory.mktemp("checkpoint")
        return {
            "numbers.sql": "{{ config(materialized='table') }} select id from range(3)",
            "as_table.py": PYTHON_TABLE,
            "pandas_on_spark.py": PANDAS_ON_SPARK,
            "overwritten.py": PYTHON_OVERWRITE,
            "appended.py": PYTHON_APPEND,
            "streamed.py": PYTHON_STREAM,
            "broken.py": PYTHON_BROKEN,
            "schema.yml": STREAMED_YML.replace("CHECKPOINT", str(checkpoint)),
        }

    def test_options_of_tables(self, project: Any) -> None:
        run_dbt(["run", "-s", "as_table", "pandas_on_spark"])
        assert rows(project, "select sum(value) from {schema}.pandas_on_spark") == [(6,)]
        assert rows(project, "select sum(value) from {schema}.as_table") == [(6,)]
        found = dict(rows(project, "show tblproperties {schema}.as_table"))
        assert found["delta.appendOnly"] == "true"
        described = rows(project, "describe {schema}.as_table")
        assert ("# Partition Information", "", "") in described

    def test_incremental_strategies(self, project: Any) -> None:
        for _ in range(2):
            run_dbt(["run", "-s", "overwritten", "appended"])
        overwritten = "select part, value from {schema}.overwritten order by part"
        assert rows(project, overwritten) == [("a", 1), ("b", 2)]
        assert rows(project, "select count(*) from {schema}.appended") == [(4,)]
        assert rows(project, "show tables in {schema} like '*__dbt_tmp'") == []

    def test_streams_run_inside(self, project: Any) -> None:
        run_dbt(["run", "-s", "numbers"])
        run_dbt(["run", "-s", "streamed"])
        run_dbt(["run", "-s", "streamed"])  # the checkpoint knows all rows already
        assert rows(project, "select * from {schema}.streamed") == [(3,)]

    def test_an_error_shows_the_users_line(self, project: Any) -> None:
        _, output = run_dbt_and_capture(["run", "-s", "broken"], expect_pass=False)
        lines = PYTHON_BROKEN.splitlines()
        for number in (4, 9):
            assert f"models/broken.py, line {number}, in " in output
            assert lines[number - 1].strip() in output
        assert "TABLE_OR_VIEW_NOT_FOUND" in output
        assert "python_model.py" not in output


class TestStatements:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        merge = (
            "{{ config(materialized='incremental', incremental_strategy='merge',"
            " unique_key='id') }}"
            " select id, cast(id as string) as v from range(4)"
        )
        return {
            "merged.sql": merge,
            "bad_key.sql": merge.replace("'id'", "'nokey'"),
            "shared_view.sql": "{{ config(materialized='table', pre_hook=\"create temporary view"
            ' only_mine as select 1 as id") }} select * from only_mine',
            "other_view.sql": "{{ config(materialized='table', pre_hook=\"create temporary view"
            ' only_mine as select 2 as id") }} select * from only_mine',
        }

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {
            "typed.sql": """
            {% macro typed() %}
              {% set row = run_query("select 1 as i, 1.50bd as d, 'x' as s, '007' as z, true as b,
                null as n, date'2020-01-02' as t, array(1, 2) as a").rows[0] %}
              {% do log(row.values() | list, info=true) %}
            {% endmacro %}"""
        }

    def test_merge_counts_rows_and_runs_once(self, project: Any) -> None:
        run_dbt(["run", "-s", "merged"])
        results = run_dbt(["run", "-s", "merged"])
        assert results[0].adapter_response["rows_affected"] == 4
        assert len(rows(project, "describe history {schema}.merged")) == 2

    def test_deltas_errors_are_told(self, project: Any) -> None:
        run_dbt(["run", "-s", "bad_key"])
        _, output = run_dbt_and_capture(["run", "-s", "bad_key"], expect_pass=False)
        assert "nokey" in output
        assert "Cannot find main error class" not in output

    def test_models_do_not_share_temp_views(self, project: Any) -> None:
        run_dbt(["run", "-s", "shared_view", "other_view"])
        assert rows(project, "select * from {schema}.shared_view") == [(1,)]
        assert rows(project, "select * from {schema}.other_view") == [(2,)]

    def test_query_results_have_types(self, project: Any) -> None:
        _, output = run_dbt_and_capture(["run-operation", "typed"])
        typed = "[1, Decimal('1.50'), 'x', '007', True, None, datetime.date(2020, 1, 2), '[1, 2]']"
        assert typed in output


def _counted(adapter: Any, asked: list[str]) -> Callable[..., Any]:
    """Asks the catalog as the adapter does, and notes each time that it has to."""
    ask = adapter.connections.known.ask

    def counted(question: tuple[str, ...], find: Callable[[], Any]) -> Any:
        def found() -> Any:
            if question[0] == "catalog":
                asked.append(question[-1])
            return find()

        return ask(question, found)

    return counted


class TestListing:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "t.sql": "{{ config(materialized='table') }} select 1 as id",
            "v.sql": "select * from {{ ref('t') }}",
        }

    def test_columns_are_asked_again_once_something_ran(self, project: Any) -> None:
        run_dbt(["run"])
        with project.adapter.connection_named("columns"):
            relation = project.adapter.Relation.create(schema=project.test_schema, identifier="t")
            asked = project.adapter.get_columns_in_relation
            assert [c.name for c in asked(relation)] == ["id"]
            assert asked(relation) == asked(relation)
            project.adapter.execute(f"alter table {relation} add column name string")
            assert [c.name for c in asked(relation)] == ["id", "name"]

    def test_the_columns_of_a_table_are_those_that_spark_reads(self, project: Any) -> None:
        schema = project.test_schema
        for statement in (
            f"""create table {schema}.kinds (
                `a b` int not null comment 'c', text varchar(9), code char(2), price decimal(9, 2),
                at timestamp, noon timestamp_ntz, any variant, day date,
                deep struct<Names: array<struct<n: varchar(3)>>, m: map<string, bigint>>
            ) using delta partitioned by (day)
            tblproperties ('delta.columnMapping.mode' = 'name')""",
            f"alter table {schema}.kinds rename column price to Cost",
            f"alter table {schema}.kinds add columns (later binary after text)",
            f"create table {schema}.plain (id int, name string) using parquet",
            f"create view {schema}.seen as select code, deep.m from {schema}.kinds",
        ):
            with project.adapter.connection_named("kinds"):
                project.adapter.execute(statement)
        adapter = project.adapter
        for name in ("kinds", "plain", "seen"):
            with adapter.connection_named("kinds"), pytest.MonkeyPatch.context() as patch:
                table = f"{schema}.{name}"
                expected = adapter.query_types(f"select * from {table}")
                adapter.connections.known.forget()
                if name == "kinds":
                    patch.setattr(type(adapter), "_query_types", None)  # the log has them
                types = adapter.table_types(table)
                assert list(types.items()) == list(expected.items())
        assert len(types) == 2
        with adapter.connection_named("kinds"):
            for kind, name in (("view", "seen"), ("table", "plain"), ("table", "kinds")):
                adapter.execute(f"drop {kind} {schema}.{name}")

    def test_what_the_listing_says_holds_until_a_statement_runs(self, project: Any) -> None:
        adapter, schema = project.adapter, project.test_schema
        with adapter.connection_named("views"):
            adapter.execute(f"create view {schema}.listed tblproperties ('a' = '1') as select 1")
            adapter.list_relations_without_caching(adapter.Relation.create(schema=schema))
            asked: list[str] = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(adapter.connections.known, "ask", _counted(adapter, asked))
                assert adapter.view_property(f"{schema}.listed", "a") == "1"
                assert adapter.view_property(f"`{schema}`.`listed`", "a") == "1"
                assert adapter.view_text(f"{schema}.listed") == "select 1"
                assert asked == []
                adapter.execute(
                    f"create or replace view {schema}.listed tblproperties ('a' = '2') as select 1"
                )
                assert adapter.view_property(f"{schema}.listed", "a") == "2"
                assert len(asked) == 1
            adapter.execute(f"drop view {schema}.listed")

    def test_views_of_any_length(self, project: Any, spark: Any, warehouse: Path) -> None:
        run_dbt(["run"])
        # As a metastore of Hive's own making: the text of a view ends at 32,700 letters.
        connection = spark._jvm.java.sql.DriverManager.getConnection(
            metastore.url(warehouse / ".metastore")
        )
        statement = connection.createStatement()
        for column in ("VIEW_ORIGINAL_TEXT", "VIEW_EXPANDED_TEXT"):
            statement.execute("alter table APP.TBLS add column NARROW long varchar")
            statement.execute(f"update APP.TBLS set NARROW = cast({column} as varchar(9999))")
            statement.execute(f"alter table APP.TBLS drop column {column}")
            statement.execute(f"rename column APP.TBLS.NARROW to {column}")
        connection.close()
        for _ in range(2):
            metastore.make_room(spark._jvm, warehouse / ".metastore")
            assert len(spark.table(f"{project.test_schema}.v").collect()) == 1
        spark.sql(f"create view {project.test_schema}.wide as select '{'x' * 40_000}' as id")
        assert len(rows(project, "select id from {schema}.wide")[0][0]) == 40_000
        spark.sql(f"drop view {project.test_schema}.wide")

    def test_logs_in_a_store_are_read_as_on_a_disk(self, spark: Any, tmp_path: Path) -> None:
        folder = tmp_path / "odd, name%20 é"
        table = f"delta.`{folder}`"
        spark.sql(f"create table {table} (id int, batch bigint) using delta")
        for batch in range(1, 4):
            spark.sql(f"insert into {table} values ({batch}, {batch}), (0, {batch})")
        stored = StoredPlace(spark, f"file:{folder}")
        answers = [
            (
                delta_log.newest_commits(place, 9),
                delta_log.newest_commits(place, 1),
                delta_log.last_write(place, ["OPTIMIZE"]),
                delta_log.table_bytes(place, 3),
                delta_log.compaction_pays(place, 3),
                delta_log.appended(place, 1, "batch", 1),
                delta_log.first_change(place, 1),
                # Hadoop hides the checksums that it writes beside local files.
                sorted(f.name for f in (place / "_delta_log").iterdir() if f.name[0] != "."),
                delta_log.newest_commits(place / "none", 1),
            )
            for place in (folder, stored)
        ]
        assert answers[0] == answers[1]
        assert answers[1][5] == (3, 4, 3, 2)
        assert (stored.name, str(stored / "x")) == (folder.name, f"file:{folder}/x")
        assert not (stored / "none").exists()
        with pytest.raises(OSError, match=r"none cannot be read: .*not exist"):
            (stored / "none").read_text()
        # Spark knows where a table is as a URI.
        far = place_of(spark, "s3a://lake/odd%2C%20name")
        assert isinstance(far, StoredPlace) and str(far) == "s3a://lake/odd, name"

    def test_broken_tables_and_temp_views(self, project: Any, warehouse: Path) -> None:
        run_dbt(["run"])
        broken = warehouse / f"{project.test_schema}.db" / "t" / "_delta_log"
        for file in broken.glob("*.json"):
            file.write_text("no json")
        with project.adapter.connection_named("listing"):
            project.adapter.execute("create temporary view passing as select 1 as id")
            schema = project.adapter.Relation.create(schema=project.test_schema)
            found = project.adapter.list_relations_without_caching(schema)
        assert {(r.schema, r.identifier, str(r.type)) for r in found} == {
            (project.test_schema, "t", "table"),
            (project.test_schema, "v", "view"),
        }
