"""Traps around histories and final tables, one table each, in a few builds for all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import FINAL, rows

pytestmark = pytest.mark.extended

DECLARED = "format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch"
SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config: {{meta: {{cdc: {{{declared}}}}}}}
    tables:
      - name: named
        identifier: raw_named
        config: {{meta: {{cdc: {{{renames}}}}}}}
        columns: [{{name: id, data_type: int}}, {{name: {column}, data_type: string}}]
      - name: feed
        identifier: raw_feed
        columns: &columns [{{name: id, data_type: int}}, {{name: a, data_type: string}}]
      - {{name: hooked, identifier: raw_hooked, columns: *columns}}
      - {{name: mended, identifier: raw_mended, columns: *columns}}
      - {{name: ends, identifier: raw_ends, columns: *columns}}
      - {{name: beside, identifier: raw_beside, columns: *columns}}
      - name: narrowed
        identifier: raw_narrowed
        config: {{meta: {{cdc: {{track_history_columns: [a]{narrowed}}}}}}}
        columns:
          - {{name: id, data_type: int}}
          - {{name: a, data_type: string}}
          - {{name: b, data_type: string}}
      - name: literal
        identifier: raw_literal
        config: {{meta: {{cdc: {{keys: ["true", "from"]}}}}}}
        columns:
          - {{name: "true", data_type: string}}
          - {{name: "from", data_type: int}}
          - {{name: "null", data_type: string}}
      - name: timed
        identifier: raw_timed
        columns: [{{name: id, data_type: timestamp}}, {{name: a, data_type: string}}]
"""
BEFORE = SOURCES.format(declared=DECLARED, renames="", column="label", narrowed="")
RENAMED = {"declared": DECLARED, "renames": "renames: {name: label}", "column": "name"}
AFTER = SOURCES.format(**RENAMED, narrowed="")
NARROWED = SOURCES.format(**RENAMED, narrowed=", except_columns: [b]")
HISTORIES = ("named", "feed", "hooked", "mended", "ends", "beside", "timed", "literal", "narrowed")
FINALS = ("named", "feed", "hooked", "mended", "timed", "literal")
LITERAL = "select `true`, `from`, `null` from {s}.literal_final order by 2"
HOOKED = "select id, a from {s}.hooked_final order by id"
ZONE = """, pre_hook: 'set time zone ''{{ var("zone", "UTC") }}'''"""
# Statements of another adapter on this one, where a variable asks for them.
PORTABLE = """
{% macro sparkcdc__published_changes(history, writes) %}
    {% set found = cdc.sparkcdc__published_changes(history, writes) %}
    {{ return(none if var("portable", false) else found) }}
{% endmacro %}


{% macro sparkcdc__write_changes(spec, write) %}
    {% set portable, own = cdc.default__write_changes, cdc.sparkcdc__write_changes %}
    {{ return((portable if var("portable", false) else own)(spec, write)) }}
{% endmacro %}


{% macro sparkcdc__feed_step(spec, history, since, sql, few) %}
    {% set body = cdc.default__feed_step if var("portable", false) else cdc.sparkcdc__feed_step %}
    {{ return(body(spec, history, since, sql, few)) }}
{% endmacro %}
"""


class TestFinalTraps:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        own = {"macro_namespace": "cdc", "search_order": ["test", "cdc"]}
        return project_config_update | {"dispatch": [*project_config_update["dispatch"], own]}

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"portable.sql": PORTABLE}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        hook = "{{ config(post_hook='update {{ this }} set a = upper(a)') }}"
        finals = {n: FINAL.format(read=f"{n}_history") for n in FINALS}
        finals["literal"] = finals["literal"].replace("['id']", "['true', 'from']")
        return {
            **{f"{n}_final.sql": (hook if n == "hooked" else "") + finals[n] for n in FINALS},
            "sources.yml": BEFORE,
            **{f"stg_{n}.sql": f"{{{{ cdc.events(source('app', '{n}')) }}}}" for n in HISTORIES},
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        lines = []
        for name in HISTORIES:
            hook = ZONE if name == "timed" else ""
            keys = '["true", "from"]' if name == "literal" else "[id]"
            lines.append(
                f"  - name: {name}_history\n    relation: ref('stg_{name}')\n    config:"
                f" {{strategy: cdc.scd2, unique_key: {keys}, file_format: delta{hook}}}\n"
            )
        return {"snapshots.yml": "version: 2\nsnapshots:\n" + "".join(lines)}

    def arrive(self, project: Any, name: str, *events: str) -> None:
        """Appends events: key, operation, sequence, value, arrival."""
        project.run_sql(f"insert into {project.test_schema}.raw_{name} values {', '.join(events)}")

    def versions(self, project: Any, name: str, columns: str = "a") -> list[tuple[Any, ...]]:
        query = f"select id, {columns}, _seq, _seq_end from {{s}}.{name}_history order by id, _seq"
        return rows(project, query)

    @pytest.fixture(scope="class", autouse=True)
    def built(self, project: Any, package: None) -> None:
        """A first build of all tables."""
        for name in HISTORIES:
            time = "timestamp" if name == "timed" else "int"
            value = "label" if name == "named" else "a"
            key = "`true` string, `from` int" if name == "literal" else f"id {time}"
            value = {"literal": "`null`", "narrowed": "a string, b"}.get(name, value)
            project.run_sql(
                f"create table {project.test_schema}.raw_{name}"
                f" ({key}, op string, seq {time}, {value} string, batch int) using delta"
            )
        for name in ("named", "feed", "hooked", "mended", "beside"):
            self.arrive(project, name, "(1, 'I', 1, 'a', 1)", "(2, 'I', 2, 'z', 1)")
        self.arrive(project, "ends", "(1, 'I', 1, 'a', 1)", "(2, 'D', 5, null, 1)")
        self.arrive(project, "timed", moment(1, 1), moment(2, 2))
        self.arrive(project, "literal", "('K', 1, 'I', 1, 'a', 1)", "('K', 2, 'I', 2, 'b', 1)")
        self.arrive(project, "narrowed", "(1, 'I', 1, 'a', 'b', 1)", "(2, 'I', 2, 'a', 'b', 1)")
        run_dbt(["build"])

    @pytest.fixture(scope="class")
    def seen(self, project: Any, built: None) -> dict[str, Any]:
        """Two builds of tables that have nothing to do with each other; what they showed before."""
        write_file(NARROWED, project.project_root, "models", "sources.yml")
        found: dict[str, Any] = {"hooked": [rows(project, HOOKED)]}
        found["feed"] = rows(project, "describe history {s}.feed_history limit 1")[0][0]
        self.arrive(project, "narrowed", "(1, 'U', 3, 'c', 'd', 3)")
        self.arrive(project, "ends", "(3, 'D', 8, null, 2)", "(1, 'U', 2, 'b', 2)")
        self.arrive(project, "feed", "(1, 'U', 3, 'b3', 3)")
        self.arrive(project, "literal", "('K', 1, 'U', 3, 'c3', 3)")
        self.arrive(project, "hooked", "(1, 'U', 3, 'b', 3)")
        finals = ["+literal_final", "+hooked_final"]
        histories = ["+narrowed_history", "+ends_history", "+feed_history"]
        run_dbt(["build", "--select", *finals, *histories])
        found["literal"] = rows(project, LITERAL)
        found["hooked"].append(rows(project, HOOKED))
        self.arrive(project, "literal", "('K', 1, 'U', 4, 'c4', 4)", "('K', 2, 'D', 4, null, 4)")
        self.arrive(project, "hooked", "(1, 'D', 4, null, 4)")
        run_dbt(["build", "--select", *finals])
        return found

    def test_a_rename_waits_for_the_staging_view(self, project: Any) -> None:
        write_file(AFTER, project.project_root, "models", "sources.yml")
        self.arrive(project, "named", "(1, 'U', 3, 'b', 2)")
        results = run_dbt(["build", "--select", "named_history", "named_final"], expect_pass=False)
        message = "\n".join(str(result.message) for result in results)
        assert "named_history: its relation has no column `name`, which app.named" in message
        assert "dbt build --select +named_history" in message
        run_dbt(["build", "--select", "+named_final"])
        assert self.versions(project, "named", "name") == [
            (1, "a", 1, 3),
            (1, "b", 3, None),
            (2, "z", 2, None),
        ]
        found = rows(project, "select id, name from {s}.named_final order by id")
        assert found == [(1, "b"), (2, "z")]

    def test_the_last_untracked_column_is_dropped(self, project: Any, seen: dict[str, Any]) -> None:
        assert self.versions(project, "narrowed", "a, b") == [
            (1, "a", "b", 1, 3),
            (1, "c", None, 3, None),
            (2, "a", "b", 2, None),
        ]

    def test_names_that_are_words_of_sql(self, project: Any, seen: dict[str, Any]) -> None:
        """Delta writes names into the condition of an overwrite without their backticks."""
        assert seen["literal"] == [("K", 1, "c3"), ("K", 2, "b")]
        assert rows(project, LITERAL) == [("K", 1, "c4")]
        versions = "select `from`, `null`, _seq, _seq_end from {s}.literal_history order by 1, 3"
        assert rows(project, versions) == [
            (1, "a", 1, 3),
            (1, "c3", 3, 4),
            (1, "c4", 4, None),
            (2, "b", 2, 4),
        ]

    def test_a_feed_whose_files_are_gone_is_not_needed(
        self, project: Any, seen: dict[str, Any]
    ) -> None:
        history, read = f"{project.test_schema}.feed_history", seen["feed"]
        self.keep_files(project, "0 hours")
        for statement in ("optimize", "vacuum"):
            project.run_sql(f"{statement} {history}")
        with pytest.raises(Exception, match=r"(?i)not.?(exist|found)|retention"):
            rows(project, f"select * from table_changes('{history}', {read + 1})")
        run_dbt(["build", "--select", "feed_final"])
        final = "select id, a from {s}.feed_final order by id"
        assert rows(project, final) == [(1, "b3"), (2, "z")]

        # Where a failed statement ends the run, the retention tells.
        for seq, kept in ((5, "0 hours"), (6, "30 days")):
            self.keep_files(project, kept)
            self.arrive(project, "feed", f"(1, 'U', {seq}, 'b{seq}', {seq})")
            run_dbt(["build", "--select", "+feed_final", "--vars", "{portable: true}"])
            assert rows(project, final) == [(1, f"b{seq}"), (2, "z")]

    def keep_files(self, project: Any, retention: str) -> None:
        project.run_sql(
            f"alter table {project.test_schema}.feed_history set tblproperties"
            f" ('delta.deletedFileRetentionDuration' = 'interval {retention}')"
        )

    def test_hooks_may_change_a_final_table(self, project: Any, seen: dict[str, Any]) -> None:
        assert seen["hooked"] == [[(1, "A"), (2, "Z")], [(1, "B"), (2, "Z")]]
        assert rows(project, HOOKED) == [(2, "Z")]

    def test_rows_that_somebody_wrote_are_repaired(self, project: Any) -> None:
        """One that is nowhere else, one that is there twice, and one with another value."""
        final = f"{project.test_schema}.mended_final"
        for statement in (
            f"insert into {final} select 3 as id, * except (id) from {final} where id = 1",
            f"insert into {final} select * from {final} where id = 1",
            f"update {final} set _cdc_seq = null where id = 2",
        ):
            project.run_sql(statement)
        found = "select id, a, _cdc_seq from {s}.mended_final order by id"
        assert rows(project, found) == [(1, "a", 1), (1, "a", 1), (2, "z", None), (3, "a", 1)]
        run_dbt(["build", "--select", "mended_final"])
        assert rows(project, found) == [(1, "a", 1), (2, "z", 2)]

    def test_a_column_that_the_history_lacks_is_refused_by_name(self, project: Any) -> None:
        project.run_sql(f"alter table {project.test_schema}.mended_final add columns (mine string)")
        self.arrive(project, "mended", "(1, 'U', 3, 'b', 3)")
        select = ["--select", "+mended_final"]
        results = run_dbt(["build", *select], expect_pass=False)
        failed = "\n".join(str(result.message) for result in results)
        assert "has the column `mine`, which its history" in failed
        assert "dbt build --full-refresh --select mended_final" in failed
        run_dbt(["build", "--full-refresh", "--select", "mended_final"])
        found = rows(
            project,
            "select * except (_cdc_created_at, _cdc_updated_at) from {s}.mended_final order by id",
        )
        assert found == [(1, "b", 3), (2, "z", 2)]

    @pytest.mark.parametrize(
        ("number", "moment", "options"),
        [
            (11, r"(merge|insert) into \S*{}\b", []),
            (12, r"select[^$]*from \S*stg_{}\b", []),
            (13, r"merge into \S*{}\b", ["--vars", "{portable: true}"]),
        ],
        ids=["right before the write", "while events are read", "portable"],
    )
    def test_rows_that_somebody_writes_beside_a_build_come_back(
        self, project: Any, monkeypatch: Any, number: int, moment: str, options: list[str]
    ) -> None:
        """The checkpoint of this build must not hide what the other program did."""
        tables = {"beside": "beside_history", "mended": "mended_final"}
        for name in tables:
            self.arrive(project, name, f"(5, 'U', {number}, 'v{number}', {number})")
        execute, written = Cursor.execute, set()

        def beside(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            for name, table in tables.items():
                place = name if "stg_" in moment and name == "beside" else table
                if table not in written and re.search(moment.format(place), sql.replace("`", "")):
                    written.add(table)
                    deletion = f"delete from {project.test_schema}.{table} where id = 1"
                    cursor._spark.newSession().sql(deletion)
            execute(cursor, sql, bindings)

        build = ["build", *options, "--select", "+beside_history", "+mended_final"]
        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", beside)
            results = run_dbt(build, expect_pass=False)
        failed = {result.node.name: str(result.message) for result in results}
        assert "beside_history" in written
        for table in written:
            assert "another program wrote" in failed[table] and table in failed[table], failed
        run_dbt(build)
        expected = [(1, 1), (2, 2), (5, number)]
        found = "select id, _seq from {s}.beside_history where _seq_end is null order by id"
        assert rows(project, found) == expected
        found = "select id from {s}.mended_final order by id"
        assert rows(project, found) == [(key,) for key, _ in expected]

    def test_tombstones_of_another_build_are_seen(
        self, project: Any, seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A build may look at the catalog before another one makes the table of tombstones."""
        listed = SparkCdcAdapter.list_relations_without_caching

        def before(self: SparkCdcAdapter, schema_relation: Any) -> Any:
            found = listed(self, schema_relation)
            return [it for it in found if not str(it.identifier).endswith("_tombstones")]

        with monkeypatch.context() as patch:
            patch.setattr(SparkCdcAdapter, "list_relations_without_caching", before)
            self.arrive(
                project,
                "ends",
                "(2, 'I', 3, 'late', 3)",
                "(3, 'I', 9, 'new', 3)",
                "(4, 'D', 9, null, 3)",
            )
            run_dbt(["build", "--select", "+ends_history"])
        assert self.versions(project, "ends") == [
            (1, "a", 1, 2),
            (1, "b", 2, None),
            (2, "late", 3, 5),
            (3, "new", 9, None),
        ]
        kept = rows(project, "select id, _seq from {s}.ends_history_tombstones order by id")
        assert kept == [(2, 5), (3, 8), (4, 9)]

    def test_versions_have_one_id_in_every_zone(self, project: Any) -> None:
        query = "select id, a, dbt_scd_id from {s}.timed_history order by id, _seq"
        commits = "describe history {s}.timed_history"
        first, writes = rows(project, query), len(rows(project, commits))
        build = ["build", "--select", "+timed_final", "--vars"]
        run_dbt([*build, "{zone: America/New_York}", "--full-refresh"])
        assert rows(project, query) == first
        assert len(first) == 2
        written = [row[4] for row in rows(project, commits)[: -writes or None]]
        assert not {"WRITE", "MERGE"} & set(written), written
        self.arrive(project, "timed", moment(1, 5, "late"), moment(1, 9, "c"))
        run_dbt([*build, "{zone: Asia/Tokyo}"])
        assert [row[1:] for row in rows(project, query) if row in first] == [
            row[1:] for row in first
        ]
        found = rows(project, "select a from {s}.timed_final order by id")
        assert found == [("c",), ("a2",)]


def moment(key: int, at: int, value: str = "") -> str:
    """An event whose key and sequence are timestamps."""
    time = "timestamp'2024-03-10 0{}:30:00.123456Z'"
    return f"({time.format(key)}, 'U', {time.format(at)}, '{value or f'a{key}'}', {at})"
