"""What users do to tables and declarations: the tables stay right, or the build says what to do.

One story for all: a few builds with things that happen between them. Each test looks at one table
in the end, so that what fails today fails alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import FINAL, histories, rows

pytestmark = pytest.mark.extended

MISTAKE = "apply_as_truncates: \"a = 'wipe'\", apply_as_deletes: \"a = 'gone'\""
# Of each table: how it is declared otherwise than the others.
FIRST = {
    "rewound": "arrival: batch * 1000000",
    "renewed": "",
    "ahead": "",
    "mistaken": MISTAKE,
    "dropped": MISTAKE,
    "compacted": "",
    "shrunk": "",
    "emptied": "",
    "replaced": "",
    "previewed": "",
    "sampled": "event_time: timestamp_seconds(seq)",
    "evolving": "",
    "evolving_alone": "history: false",
    "wiped": "",
    "binary": "",
    "lettered": "",
    "counted": "",
    "halved": "",
    "restored": "",
    "thinned": "",
    "snapshotted": "",
}
# `arrival` of other types than int.
BATCHES = {"lettered": "string", "counted": "decimal(38,0)", "halved": "double"}
# What was declared by mistake, and is corrected before the second build.
CORRECTED = {"rewound": "", "mistaken": "", "dropped": ""}
HISTORIES = [name for name in FIRST if name != "evolving_alone"]
# Final tables: what they read, and how they take new columns.
FINALS = {
    "shrunk_final": ("shrunk_history", ""),
    "emptied_final": ("emptied_history", ""),
    "replaced_final": ("replaced_history", ""),
    "binary_final": ("binary_history", ""),
    "appending_final": ("evolving_history", "append_new_columns"),
    "syncing_final": ("evolving_history", "sync_all_columns"),
    "failing_final": ("evolving_history", "fail"),
    "alone_final": ("stg_evolving_alone", "sync_all_columns"),
}
EVOLVING = [name for name, (_, change) in FINALS.items() if change]
REMEDIES = ("rebuild", "full-refresh", "drop the table", "arrival")

# Keys that are no UTF-8: as text for people they would be the same.
BROKEN, OTHER = "cast(X'C3' as string)", "cast(X'C328' as string)"

TABLE = """
      - name: {name}
        identifier: raw_{name}
        config: {{meta: {{cdc: {{{options}}}}}}}
        columns: [{{name: id, data_type: {key}}}, {{name: a, data_type: string}}]
"""


def sources(options: dict[str, str]) -> str:
    """The declarations of all tables."""
    text = 'version: 2\nsources:\n  - name: app\n    schema: "{{ target.schema }}"\n    tables:\n'
    for name, more in options.items():
        declared = "format: flagged, keys: [id], sequence_by: seq, operation: op"
        if "arrival" not in more:
            declared += ", arrival: batch"
        declared += f", {more}" if more else ""
        text += TABLE.format(name=name, options=declared, key=key_type(name))
    return text


def key_type(name: str) -> str:
    return "string" if name == "binary" else "int"


def final(read: str, schema_change: str) -> str:
    """A final table, by what it reads."""
    change = f"on_schema_change='{schema_change}', " if schema_change else ""
    return FINAL.format(read=read).replace("unique_key", f"{change}unique_key")


@dataclass
class Story:
    """What the builds said, and tables as they were between them.

    Attributes:
        project: The dbt project.
        messages: What went wrong, by node; all that stopped a whole build under the empty name.
        seen: Rows by what they show.
    """

    project: Any
    messages: dict[str, list[str]] = field(default_factory=dict)
    seen: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def dbt(self, *arguments: str) -> None:
        """Runs dbt and keeps what it says of failures."""
        try:
            results = run_dbt(list(arguments), expect_pass=None)
        except Exception as exc:
            self.messages.setdefault("", []).append(str(exc))
            return
        for result in getattr(results, "results", []):
            if str(result.status) in ("error", "fail", "runtime error"):
                node = getattr(result.node, "name", "")
                self.messages.setdefault(node, []).append(str(result.message))

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.project.run_sql(statement.replace("{s}", self.project.test_schema))

    def arrive(self, name: str, *events: str) -> None:
        """Appends events to a raw table: key, operation, sequence, value, arrival."""
        self.sql(f"insert into {{s}}.raw_{name} values {', '.join(events)}")

    def make(self, name: str) -> None:
        batch = BATCHES.get(name, "int")
        self.sql(
            f"create table {{s}}.raw_{name} (id {key_type(name)}, op string, seq int, a string,"
            f" batch {batch}) using delta"
        )

    def current(self, name: str) -> list[tuple[Any, ...]]:
        """Key and value of the open versions of a history; none where it was not built."""
        schema = self.project.test_schema
        if not rows(self.project, f"show tables in {schema} like '{name}_history'"):
            return []
        query = f"select id, a from {{s}}.{name}_history where _seq_end is null order by id"
        return rows(self.project, query)

    def versions(self, name: str) -> list[tuple[Any, ...]]:
        query = f"select id, a, _seq, _seq_end from {{s}}.{name}_history order by id, _seq"
        return rows(self.project, query)

    def unsaid(self, *nodes: str) -> list[str]:
        """What builds said of some nodes, where it names neither a table nor what to do."""
        said = [text for node in nodes for text in self.messages.get(node, [])]
        return [
            text
            for text in said
            if not any(node.removesuffix("_history") in text for node in nodes)
            or not any(remedy in text.lower() for remedy in REMEDIES)
        ]

    def refused(self, *nodes: str) -> bool:
        """Whether builds refused a table, each time with its name and a remedy."""
        return any(self.messages.get(node) for node in nodes) and not self.unsaid(*nodes)


@pytest.mark.usefixtures("package")
class TestNeverSilent:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": sources(FIRST),
            **{f"stg_{n}.sql": f"{{{{ cdc.events(source('app', '{n}')) }}}}" for n in FIRST},
            # dbt samples what has an event time.
            "stg_sampled.sql": "{{ config(event_time='_ts') }}"
            "{{ cdc.events(source('app', 'sampled')) }}",
            **{f"{name}.sql": final(*read) for name, read in FINALS.items()},
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(**{f"{name}_history": f"stg_{name}" for name in HISTORIES})

    @pytest.fixture(scope="class")
    def story(self, project: Any, package: None) -> Story:
        story = Story(project)
        for name in FIRST:
            story.make(name)
        self.first_build(story)
        self.second_build(story)
        self.third_build(story)
        self.fourth_build(story)
        return story

    def first_build(self, story: Story) -> None:
        plain = ("rewound", "previewed", "sampled", "replaced", "evolving", "evolving_alone")
        for name in (*plain, "emptied"):
            story.arrive(name, "(1, 'I', 1, 'a', 1)", "(2, 'I', 2, 'z', 1)")
        story.arrive("renewed", "(1, 'I', 1, 'a', 7)", "(2, 'I', 2, 'z', 7)")
        story.arrive("ahead", "(1, 'I', 1, 'a', 1)", "(2, 'I', 2, 'z', 1000)")
        for name in ("mistaken", "dropped"):
            story.arrive(
                name, "(1, 'I', 1, 'a', 1)", "(2, 'I', 5, 'wipe', 1)", "(3, 'I', 9, 'gone', 1)"
            )
        story.arrive(
            "compacted",
            "(1, 'I', 1, 'a', 1)",
            "(1, 'U', 2, 'b', 1)",
            "(null, 'T', 3, null, 1)",
            "(5, 'D', 8, null, 1)",
        )
        story.arrive("shrunk", "(1, 'I', 1, 'a', 1)", "(2, 'I', 1, 'z', 1)")
        # A truncate whose key column is NOT NULL at the source carries some key.
        story.arrive("wiped", "(1, 'I', 1, 'a', 1)", "(1, 'T', 3, null, 1)")
        story.arrive("binary", f"({BROKEN}, 'I', 1, 'a', 1)", f"({OTHER}, 'I', 1, 'x', 1)")
        story.arrive("lettered", "(1, 'I', 1, 'a', 'day o''1')", "(2, 'I', 2, 'z', 'day o''1')")
        story.arrive("counted", "(1, 'I', 1, 'a', 1)", "(2, 'I', 2, 'z', 1)")
        story.arrive("halved", "(1, 'I', 1, 'a', 1.5)")
        for name in ("restored", "thinned"):
            story.arrive(name, "(1, 'I', 1, 'a', 5)")
            story.arrive(name, "(2, 'I', 2, 'wrong', 6)")
        # What dbt's own snapshot by timestamp leaves.
        story.arrive("snapshotted", "(1, 'I', 1, 'a', 1)")
        story.sql(
            "create table {s}.snapshotted_history using delta as select 1 as id, 'a' as a, 'x' as"
            " dbt_scd_id, current_timestamp() as dbt_updated_at, current_timestamp() as"
            " dbt_valid_from, cast(null as timestamp) as dbt_valid_to"
        )
        story.dbt("run", "--select", "stg_previewed", "stg_sampled")
        story.dbt("snapshot", "--empty", "--select", "previewed_history")
        story.dbt("build", "--sample", "1 day", "--select", "sampled_history")
        story.seen["sampled"] = story.current("sampled")
        # Tombstones of a first build are written by the second run of a history.
        story.dbt("build")
        story.sql(
            "create table {s}.replaced_older using delta as select * from {s}.replaced_history"
        )
        for name in ("mistaken", "dropped"):
            story.arrive(name, "(4, 'I', 2, 'late', 2)")
        story.dbt("build", "--select", "mistaken_history", "dropped_history")

    def second_build(self, story: Story) -> None:
        project = story.project
        write_file(sources(FIRST | CORRECTED), project.project_root, "models", "sources.yml")
        story.arrive("rewound", "(1, 'U', 3, 'b', 2)")
        story.sql("drop table {s}.raw_renewed")
        story.make("renewed")
        story.arrive("renewed", "(1, 'U', 3, 'b', 1)")
        story.arrive("ahead", "(1, 'U', 3, 'b', 2)")
        story.dbt("build", "--full-refresh", "--select", "+mistaken_history")
        story.sql("drop table {s}.dropped_history")
        for name in ("mistaken", "dropped"):
            story.arrive(name, "(3, 'I', 4, 'x', 3)")
        compact = "{table: compacted_history, keep_versions: 1, dry_run: false}"
        story.dbt("run-operation", "cdc_compact", "--args", compact)
        story.arrive(
            "compacted", "(1, 'I', 10, 'c', 2)", "(2, 'I', 2, 'late', 2)", "(5, 'I', 7, 'late', 2)"
        )
        story.arrive("shrunk", "(1, 'D', 2, null, 2)", "(1, 'I', 3, 'b', 2)")
        story.sql("truncate table {s}.emptied_history")
        for name in ("replaced", "evolving", "evolving_alone"):
            story.arrive(name, "(1, 'U', 3, 'b', 2)")
        story.arrive("wiped", "(2, 'I', 2, 'late', 2)")
        story.arrive("binary", f"({BROKEN}, 'U', 2, 'b', 2)")
        story.arrive("lettered", "(1, 'U', 3, 'b', 'day o''2')")
        story.arrive("counted", "(1, 'U', 3, 'b', 2)")
        # Loaded once more, with the same number.
        story.sql("restore table {s}.raw_restored to version as of 1")
        story.arrive("restored", "(2, 'I', 3, 'z', 6)")
        # Retention deletes after a row came late.
        story.arrive("thinned", "(2, 'U', 3, 'z', 5)")
        story.sql("delete from {s}.raw_thinned where id = 1")
        # But for what is done, or was refused and would be again.
        done = ("previewed", "sampled", "snapshotted", "halved")
        story.dbt("build", "--exclude", *(f"stg_{name}+" for name in done))

    def third_build(self, story: Story) -> None:
        story.sql("delete from {s}.raw_shrunk where seq = 3")
        lost = ["--vars", "{cdc_rebuild: shrunk_history}"]
        story.dbt("build", "--full-refresh", "--select", "shrunk_history", *lost)
        # No truncate that is none closes it, nor one that the mistaken declaration left behind.
        for name in ("mistaken", "dropped"):
            story.arrive(name, "(5, 'I', 3, 'later', 4)")
        story.arrive("emptied", "(3, 'I', 3, 'c', 2)")
        story.sql("insert overwrite {s}.replaced_history select * from {s}.replaced_older")
        for name in ("evolving", "evolving_alone"):
            story.arrive(name, "(1, 'U', 4, 'c', 3)")
        tables = {name: read for name, (read, _) in FINALS.items() if name != "binary_final"}
        read = {name for name in tables.values() if name.endswith("_history")}
        story.dbt("build", "--select", "mistaken_history", "dropped_history", *read, *tables)
        story.seen["shrunk"] = rows(story.project, "select id, a from {s}.shrunk_final order by id")

    def fourth_build(self, story: Story) -> None:
        story.sql("delete from {s}.shrunk_history where id = 2")
        story.dbt("build", "--select", "shrunk_history", "shrunk_final")

    def test_events_are_read_after_the_arrival_expression_changed(self, story: Story) -> None:
        assert story.current("rewound") == [(1, "b"), (2, "z")]

    def test_events_are_read_from_a_raw_table_that_begins_again(self, story: Story) -> None:
        assert story.current("renewed") == [(1, "b"), (2, "z")]

    def test_events_are_read_after_one_row_with_an_arrival_of_the_future(
        self, story: Story
    ) -> None:
        assert story.current("ahead") == [(1, "b"), (2, "z")]

    def test_a_full_refresh_forgets_truncates_and_deletes_declared_by_mistake(
        self, story: Story
    ) -> None:
        assert story.versions("mistaken") == REPAIRED

    def test_a_dropped_history_leaves_no_truncates_and_deletes_behind(self, story: Story) -> None:
        assert story.versions("dropped") == REPAIRED

    def test_late_events_are_closed_by_earlier_ends_after_compaction(self, story: Story) -> None:
        found = story.versions("compacted")
        assert [version for version in found if version[1] != "a"] == [
            (1, "b", 2, 3),
            (1, "c", 10, None),
            (2, "late", 2, 3),
            (5, "late", 7, 8),
        ]
        created = "select _cdc_created_at from {s}.compacted_history where id = 1 and a = 'c'"
        assert [str(row[0]) for row in rows(story.project, created)] == ["10"]

    def test_a_rebuilt_history_takes_its_rows_out_of_the_final_table(self, story: Story) -> None:
        assert story.seen["shrunk"] == [(2, "z")]
        assert not story.unsaid("shrunk_history", "shrunk_final")

    def test_rows_deleted_from_a_history_come_back(self, story: Story) -> None:
        found = rows(story.project, "select id, a from {s}.shrunk_final order by id")
        assert found == story.current("shrunk") == [(2, "z")]

    def test_a_history_truncated_by_hand_is_rebuilt(self, story: Story) -> None:
        found = rows(story.project, "select id, a from {s}.emptied_final order by id")
        assert found == story.current("emptied") == [(1, "a"), (2, "z"), (3, "c")]

    def test_an_older_state_written_over_a_history_is_brought_up_to_date(
        self, story: Story
    ) -> None:
        found = rows(story.project, "select id, a from {s}.replaced_final order by id")
        assert found == story.current("replaced") == [(1, "b"), (2, "z")]

    def test_events_before_a_first_build_with_empty_are_read(self, story: Story) -> None:
        assert story.current("previewed") == [(1, "a"), (2, "z")]

    def test_events_before_a_first_build_with_sample_are_read(self, story: Story) -> None:
        assert story.seen["sampled"] == []
        assert story.current("sampled") == [(1, "a"), (2, "z")]

    @pytest.mark.parametrize("name", EVOLVING)
    def test_a_final_table_with_on_schema_change_goes_on(self, story: Story, name: str) -> None:
        alone = " where _cdc_deleted_at is null" if name == "alone_final" else ""
        found = rows(story.project, f"select id, a from {{s}}.{name}{alone} order by id")
        assert found == [(1, "c"), (2, "z")]
        assert name not in story.messages
        columns = {row[0] for row in rows(story.project, f"show columns in {{s}}.{name}")}
        assert "_op" not in columns

    def test_a_table_of_another_snapshot_strategy_is_refused(self, story: Story) -> None:
        assert story.refused("snapshotted_history")
        assert all("other snapshot" in text for text in story.messages["snapshotted_history"])
        query = "select id, dbt_scd_id from {s}.snapshotted_history"
        assert rows(story.project, query) == [(1, "x")]

    def test_a_truncate_that_carries_a_key_closes_late_rows(self, story: Story) -> None:
        assert story.versions("wiped") == [(1, "a", 1, 3), (2, "late", 2, 3)]

    def test_keys_that_are_no_utf_8_stay_apart_and_are_found_again(self, story: Story) -> None:
        columns = "hex(cast(id as binary)) as key, a"
        expected = [("C3", "b"), ("C328", "x")]
        for table in ("binary_history where _seq_end is null", "binary_final"):
            assert (
                rows(story.project, f"select {columns} from {{s}}.{table} order by 1") == expected
            )

    def test_an_arrival_that_is_text_is_refused(self, story: Story) -> None:
        assert story.refused("lettered_history")
        assert story.current("lettered") == []

    def test_an_arrival_that_is_a_decimal_is_read(self, story: Story) -> None:
        assert story.current("counted") == [(1, "b"), (2, "z")]

    def test_an_arrival_with_a_fraction_is_refused(self, story: Story) -> None:
        assert story.refused("halved_history")
        assert (
            "(batch) gives `1.5`, which is not a whole number"
            in (story.messages["halved_history"][0])
        )
        assert story.current("halved") == []

    @pytest.mark.parametrize("name", ["restored", "thinned"])
    def test_rows_with_a_number_that_was_read_are_read_beside_other_commits(
        self, story: Story, name: str
    ) -> None:
        assert story.current(name) == [(1, "a"), (2, "z")]


# Both rows that were taken for a truncate and a delete are rows, and what came late is closed by
# the next event of its own key alone.
REPAIRED = [
    (1, "a", 1, None),
    (2, "wipe", 5, None),
    (3, "x", 4, 9),
    (3, "gone", 9, None),
    (4, "late", 2, None),
    (5, "later", 3, None),
]

KEYS = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: flagged, sequence_by: seq, operation: op}}}
    tables:
      - name: siblings
        identifier: changes
        config: {meta: {cdc: {keys: [id, region]}}}
        columns: &columns
          - {name: id, data_type: int}
          - {name: region, data_type: string}
          - {name: a, data_type: string}
      - {name: ghosts, identifier: changes, config: {meta: {cdc: {keys: [id]}}}, columns: *columns}
"""


class TestUniqueKey:
    """A final table whose `unique_key` is not its history's key."""

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-start": ["{{ cdc.validate() }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        wide = FINAL.format(read="ghosts_history").replace("['id']", "['id', 'region']")
        return {
            "sources.yml": KEYS,
            "stg_siblings.sql": "{{ cdc.events(source('app', 'siblings')) }}",
            "stg_ghosts.sql": "{{ cdc.events(source('app', 'ghosts')) }}",
            "siblings_final.sql": FINAL.format(read="siblings_history"),
            "ghosts_final.sql": wide,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        text = histories(ghosts_history="stg_ghosts")["snapshots.yml"]
        config = "{strategy: cdc.scd2, unique_key: [id, region], file_format: delta}"
        text += (
            f"  - name: siblings_history\n    relation: ref('stg_siblings')\n    config: {config}"
        )
        return {"snapshots.yml": text}

    @pytest.mark.usefixtures("package")
    def test_a_final_table_with_another_key_is_refused(self, project: Any) -> None:
        story = Story(project)
        story.sql(
            "create table {s}.changes (id int, region string, a string, seq int, op string)"
            " using delta",
            "insert into {s}.changes values (1, 'n', 'a', 1, 'I'), (1, 's', 'b', 2, 'I')",
        )
        story.dbt("build")
        said = "\n".join(text for texts in story.messages.values() for text in texts)
        for name in ("siblings_final", "ghosts_final"):
            assert name in said and "unique_key" in said, said
            assert not project.run_sql(
                f"show tables in {project.test_schema} like '{name}'", fetch="all"
            )
