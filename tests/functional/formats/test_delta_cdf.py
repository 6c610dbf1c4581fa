"""The change data feed of Delta itself: the changes of a table that SQL statements made."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.functional.formats.decoding import Decoding, events, reasons


class TestDeltaCdf(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        "feed": {
            "format": "delta_cdf",
            "keys": ["id"],
            "arrival": "_commit_version",
            "columns": {"id": "int", "name": "string", "price": "decimal(6,2)"},
        },
        "odd": {"format": "delta_cdf", "keys": ["id"], "columns": {"id": "int"}},
    }
    raw: ClassVar[dict[str, Any]] = {
        "odd": """
            select *, timestamp'2020-01-01 00:00:00' as _commit_timestamp
            from values
                (1, 'insert', 1L), (2, 'upsert', 1L), (null, 'insert', 1L), (3, null, 1L),
                (4, 'insert', null)
                as t (id, _change_type, _commit_version)
        """
    }

    @pytest.fixture(scope="class")
    def raw_tables(self, project: Any, session: Any) -> dict[str, Any]:
        table = f"{project.test_schema}.origin"
        for statement in (
            f"create table {table} (id int, name string, price decimal(7,3)) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')",
            f"insert into {table} values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4.125)",
            f"update {table} set name = null where id = 1",
            f"update {table} set id = 9 where id = 2",
            # The key that one row leaves is the one that another row takes.
            f"update {table} set id = id + 1 where id in (3, 4)",
            f"insert overwrite {table} values (1, 'new', 1)",
        ):
            session.sql(statement)
        return {**self.raw, "feed": f"select * from table_changes('{table}', 0)"}

    def test_feed(self, built: Any) -> None:
        rows = built("stg_feed")
        assert events(rows, "id", "name", "_seq") == sorted(
            [
                ("I", 1, "a", (1, 1)),
                ("I", 2, "b", (1, 1)),
                ("I", 3, "c", (1, 1)),
                ("U", 1, None, (2, 1)),
                ("D", 2, "b", (3, 0)),
                ("U", 9, "b", (3, 1)),
                ("D", 3, "c", (4, 0)),
                ("U", 4, "c", (4, 1)),
                ("D", 1, None, (5, 0)),
                ("D", 4, "c", (5, 0)),
                ("D", 9, "b", (5, 0)),
                ("I", 1, "new", (5, 1)),
            ],
            key=lambda event: (event[3], event[1]),
        )
        assert all(row["_ts"] is not None for row in rows)
        assert reasons(built("feed_quarantine")) == [
            "column price: 4.125 is not a decimal(6,2)",
            "column price: 4.125 is not a decimal(6,2)",
            "column price: 4.125 is not a decimal(6,2)",
        ]

    def test_what_is_wrong(self, built: Any) -> None:
        assert events(built("stg_odd"), "id") == [("I", 1)]
        assert reasons(built("odd_quarantine")) == [
            "no operation",
            "no sequence",
            "no value for key column id",
            "unknown operation upsert",
        ]
