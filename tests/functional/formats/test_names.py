"""Names of raw and declared columns never collide with those that the package uses itself."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt

from tests.functional.formats.decoding import Decoding, events, reasons
from tests.functional.formats.test_messages import dms, maxwell

pytestmark = pytest.mark.extended

COLUMNS = {"id": "int", "name": "string"}


class TestNames(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        "typed": {
            "format": "flagged",
            "keys": ["ID"],
            "operation": "_cdc_operation",
            "sequence_by": "_seq",
            "event_time": "_ts",
            "arrival": "_arrived",
            "origin": "_origin",
            "columns": COLUMNS,
            "data_tests": [{"cdc.quarantined_share": {"arguments": {"newest": 1}}}],
        },
        "renamed": {
            "format": "flagged",
            "raw": "typed",
            "keys": ["Nr"],
            "operation": "_cdc_operation",
            "sequence_by": "_seq",
            "renames": {"NR": ["no", "id"], "Label": "name"},
            "except_columns": ["Gone", "_PAYLOAD"],
            "ignore_null_updates": ["LABEL"],
            "columns": {"nr": "int", "label": "string", "gone": "int", "_payload": "string"},
        },
        "canal": {
            "format": "canal",
            "landed": True,
            "keys": ["id"],
            "sequence_by": "_row",
            "columns": {**COLUMNS, "_index": "string", "_row": "string"},
        },
        "maxwell": {
            "format": "maxwell",
            "keys": ["id"],
            "columns": {**COLUMNS, "code": "string"},
        },
        "dotted": {
            "format": "maxwell",
            "keys": ["i.d"],
            "except_columns": ["left.out"],
            "columns": {"i.d": "int", "a.~b": "int", "left.out": "int"},
        },
        "dots": {
            "format": "flagged",
            "keys": ["i.d"],
            "where": "is_kept",
            "operation": "op",
            "sequence_by": "seq",
            "columns": {"i.d": "int", "a.b": "decimal(5,1)"},
        },
        "pairs": {
            "format": "maxwell",
            "raw": "maxwell",
            "keys": ["code", "id"],
            "columns": {**COLUMNS, "code": "string"},
        },
        "log": {
            "format": "maxwell",
            "raw": "maxwell",
            "keys": [],
            "columns": COLUMNS,
            "data_tests": [
                {"cdc.quarantined_share": {"name": "too_many"}},
                {"cdc.quarantined_share": {"arguments": {"max_share": 0.9}}},
            ],
        },
        "rows": {
            "format": "flagged",
            "raw": "typed",
            "keys": [],
            "apply_as_deletes": "_cdc_operation = 'D'",
            "sequence_by": "_seq",
            "columns": COLUMNS,
        },
        "emptied": {
            "format": "dms",
            "payload": "value",
            "keys": ["id"],
            "sequence_by": "offset",
            "columns": COLUMNS,
        },
        "not_emptied": {
            "format": "dms",
            "raw": "emptied",
            "payload": "value",
            "keys": ["id"],
            "columns": COLUMNS,
        },
        "timely": {
            "format": "dms",
            "payload": "value",
            "keys": ["id"],
            "sequence_by": "offset",
            "event_time": "_message.metadata.timestamp",
            "columns": COLUMNS,
        },
    }
    raw: ClassVar[dict[str, Any]] = {
        "typed": """
            select *, 'x' as _payload, 7L as _arrived, 'here' as _origin, 1 as _row, 2 as _old
            from values
                (1, 'a', 'I', 1, timestamp'2020-01-01'), (1, null, 'U', 2, timestamp'2020-01-02'),
                (1, null, 'D', 3, timestamp'2020-01-03')
                as t (id, name, _cdc_operation, _seq, _ts)
        """,
        "canal": """
            select
                '{"database":"d","table":"canal","type":"INSERT","es":1,"isDdl":false,'
                || '"data":[{"id":"1","name":"a","_index":"b","_row":"c"},{"id":"2"}]}'
                    as value,
                'f' as _file, 3 as _row, 4L as _batch, cast(null as string) as _problem,
                'canal' as _table
        """,
        "maxwell": [
            maxwell("insert", 1, {"id": 1, "name": "a", "code": "1"}),
            # The same number, written otherwise.
            maxwell("update", 2, {"id": 1, "name": "b", "code": "1"}, old={"id": "01"}),
            maxwell("update", 3, {"id": 1, "name": "b", "code": "01"}, old={"code": "1"}),
            maxwell("update", 4, {"id": 2, "name": "b", "code": "01"}, old={"id": "x"}),
            maxwell("update", 5, {"id": 3, "name": "b", "code": "01"}, old={"id": 2}),
            maxwell("delete", 6, {"id": 3, "name": "b", "code": "01"}),
        ],
        "dotted": [
            maxwell("insert", 1, {"i.d": 1, "a.~b": 5, "left.out": 1}),
            maxwell("update", 2, {"i.d": 2, "a.~b": 6, "left.out": 1}, old={"i.d": 1}),
            maxwell("update", 3, {"i.d": 2, "a.~b": "x", "left.out": 1}, old={}),
        ],
        "dots": """
            select * from values
                (1, 1.5, 'I', 1, true), (2, 1.55, 'I', 2, true), (3, 1.5, 'I', 3, false)
                as t (`i.d`, `a.b`, op, seq, is_kept)
        """,
        # Written within the replication lag: the record's own time is later than the next commit.
        "emptied": [
            dms("insert", {"id": 1, "name": "a"}, 1),
            dms("truncate-table", None, 2, kind="control"),
            dms("insert", {"id": 2, "name": "b"}, 3),
        ],
        "timely": [
            {
                "data": {"id": 1, "name": "a"},
                "metadata": {"timestamp": "2020-01-01T00:00:00Z", "operation": "insert"},
            }
        ],
    }

    def test_raw_columns(self, built: Any) -> None:
        rows = built("stg_typed")
        assert events(rows, "id", "name", "_ts", "_arrived") == [
            ("I", 1, "a", dt.datetime(2020, 1, 1), 7),
            ("U", 1, None, dt.datetime(2020, 1, 2), 7),
            ("D", 1, None, dt.datetime(2020, 1, 3), 7),
        ]
        assert not built("typed_quarantine")

    def test_another_case_and_columns_that_are_not_there(self, built: Any) -> None:
        assert events(built("stg_renamed"), "nr", "label", "_unset") == [
            ("I", 1, "a", []),
            ("U", 1, None, ["label"]),
            ("D", 1, None, []),
        ]
        assert not built("renamed_quarantine")

    def test_names_with_dots(self, built: Any) -> None:
        """Spark takes the quotes around such a name for a part of it in some places.

        A condition that is only a name is no alias of the raw table.
        """
        assert events(built("stg_dotted"), "i.d", "a.~b", "_old_i.d") == [
            ("I", 1, 5, None),
            ("U", 2, 6, 1),
        ]
        assert reasons(built("dotted_quarantine")) == ["column a.~b: x is not a int"]
        assert events(built("stg_dots"), "i.d", "a.b") == [("I", 1, Decimal("1.5"))]
        assert len(built("dots_quarantine")) == 1

    def test_landed_canal(self, built: Any) -> None:
        assert events(built("stg_canal"), "id", "name", "_index", "_row") == [
            ("I", 1, "a", "b", "c"),
            ("I", 2, None, None, None),
        ]

    def test_keys_compare_in_their_type(self, built: Any) -> None:
        assert events(built("stg_maxwell"), "id", "code", "_old_id") == [
            ("I", 1, "1", None),
            ("U", 1, "1", None),
            ("U", 1, "01", None),
            ("U", 3, "01", 2),
            ("D", 3, "01", None),
        ]
        assert events(built("stg_pairs"), "id", "code", "_old_id", "_old_code") == [
            ("I", 1, "1", None, None),
            ("U", 1, "1", None, None),
            ("U", 1, "01", 1, "1"),
            ("U", 3, "01", 2, "01"),
            ("D", 3, "01", None, None),
        ]
        for source in ("maxwell", "pairs"):
            assert reasons(built(f"{source}_quarantine")) == [
                "former value of key column id: x is not a int"
            ]

    def test_a_table_without_keys_takes_rows_only(self, built: Any) -> None:
        assert events(built("stg_log"), "id") == [("I", 1)]
        assert reasons(built("log_quarantine")) == [
            "operation D in a table without keys",
            *["operation U in a table without keys"] * 4,
        ]
        assert [row["_op"] for row in built("stg_rows")] == ["U", "U"]
        assert reasons(built("rows_quarantine")) == ["operation D in a table without keys"]

    def test_a_truncate_of_dms_has_a_place_where_one_is_declared(self, built: Any) -> None:
        assert events(built("stg_emptied"), "id") == [("I", 1), ("T", None), ("I", 2)]
        assert events(built("stg_not_emptied"), "id") == [("I", 1), ("I", 2)]
        (reason,) = reasons(built("not_emptied_quarantine"))
        assert reason.startswith("truncate-table has no commit time to order it by")

    def test_text_is_no_event_time(self, built: Any) -> None:
        with pytest.raises(Exception, match=r"app\.timely: `event_time` .* is text and no time"):
            built("stg_timely")

    def test_share_of_quarantined_events(self, built: Any) -> None:
        results = run_dbt(["test"], expect_pass=False)
        said = {r.node.name: str(r.status) for r in results if r.node.resource_type == "test"}
        assert len(said) == 3
        assert [name for name, status in said.items() if status != "pass"] == ["too_many"]

    def test_empty(self, built: Any) -> None:
        run_dbt(["run", "--empty"])
        assert (
            not built("stg_typed") and not built("stg_renamed") and not built("maxwell_quarantine")
        )
