"""What is wrong with the declarations of formats is said at once, each with its way out."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt
from dbt_common.exceptions import CompilationError

from tests.functional.formats.decoding import ROOT, source_yaml

COLUMNS = {"id": "int", "at": "timestamp", "name": "string"}


class Declarations:
    """A project of declarations, which is refused before anything runs."""

    sources: ClassVar[dict[str, Any]]

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"on-run-start": ["{{ cdc.validate() }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"sources.yml": source_yaml(self.sources), "one.sql": "select 1 as id"}

    @pytest.fixture
    def said(self, project: Any) -> str:
        """What is said of them."""
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        with pytest.raises(CompilationError) as refusal:
            run_dbt(["run"])
        return str(refusal.value)


class TestDeclarations(Declarations):
    sources: ClassVar[dict[str, Any]] = {
        "no_order": {"format": "canal", "keys": ["id"], "columns": COLUMNS},
        "no_order_in_files": {"format": "dms", "keys": ["id"], "columns": COLUMNS},
        "typed": {
            "format": "delta_cdf",
            "keys": ["id"],
            "columns": COLUMNS,
            "payload": "value",
            "source_table": "t",
        },
        "options": {
            "format": "maxwell",
            "keys": ["id"],
            "columns": COLUMNS,
            "operation": "type",
            "old_key": "key",
            "encodings": {"at": "base64", "name": "hex", "nr": "iso"},
        },
        "messages": {
            "format": "dms",
            "payload": "value",
            "keys": ["ID"],
            "where": "_message.metadata['schema-name'] = 's'",
            "sequence_by": ["_message.stream_position", "_message.metadata['x']"],
            "event_time": "try_cast(_message.metadata['timestamp'] as timestamp)",
            "columns": COLUMNS,
        },
        "rows": {
            "format": "flagged",
            "keys": ["id"],
            "sequence_by": "_message.lsn",
            "operation": "op",
            "columns": {**COLUMNS, "__cdc_x": "int", "_latest": "int", "s": "struct<a int>"},
            # As `{area: concat(name, 'x')}` is read.
            "partition_by": {"area": "concat(name", "'x')": None},
        },
        "sound": {
            "format": "goldengate",
            "keys": ["id"],
            "columns": COLUMNS,
            "operation": "_message.op_type",
            "encodings": {"at": "epoch_millis"},
            "event_time": False,
        },
    }

    def test_all_at_once(self, said: str) -> None:
        for table, problem in (
            ("no_order", "no `sequence_by`. Canal's messages carry no position"),
            ("no_order_in_files", "no `sequence_by`. Files of DMS carry no position"),
            ("typed", "delta_cdf reads the raw table's columns. Remove `payload` and `landed`."),
            ("typed", "`source_table`: events of delta_cdf do not name their table. Use `where`."),
            ("options", "`operation` belongs to the format flagged; maxwell carries its operation"),
            ("options", "`old_key` belongs to the format debezium. Remove it."),
            (
                "options",
                "`encodings`: base64 is not an encoding of column `at` (timestamp). Choose",
            ),
            ("options", "`encodings`: hex is not an encoding of column `name` (string). Its type"),
            ("options", "`encodings` names the column `nr`, which is not declared."),
            (
                "messages",
                "`where` reads `_message`, which does not exist before the event is parsed. Write"
                " `get_json_object",
            ),
            ("messages", "`sequence_by` reads `_message.stream_position`. Of an event of dms"),
            (
                "rows",
                "`sequence_by` reads `_message`, which exists only where events are JSON text",
            ),
            ("rows", "column `__cdc_x` has a name that the package uses itself."),
            ("rows", "column `_latest` has a name that the package uses itself."),
            ("rows", "column `s` is a struct<a int>. Write the fields of a struct with a colon"),
            ("rows", "`partition_by` has no expression for the column `'x')`. In braces YAML"),
        ):
            assert f"app.{table} (models/sources.yml): {problem}" in said
        assert "16 problem(s)" in said
        assert "app.sound" not in said


class TestRenames(Declarations):
    declared: ClassVar[dict[str, Any]] = {
        "format": "maxwell",
        "keys": ["id"],
        "columns": COLUMNS,
    }
    sources: ClassVar[dict[str, Any]] = {
        "a_list": {**declared, "renames": ["name"]},
        "unknown": {**declared, "renames": {"nr": "number"}},
        "declared_too": {**declared, "renames": {"name": ["label", "AT"]}},
        "twice": {**declared, "renames": {"name": "label", "at": ["moment", "label"]}},
        "followed": {**declared, "key_changes": True, "renames": {"id": "nr", "name": "label"}},
        "sound": {**declared, "renames": {"id": "nr", "name": ["label", "title"]}},
    }

    def test_all_at_once(self, said: str) -> None:
        for table, problem in (
            ("a_list", "`renames` is `['name']`. Write `{<column>: <former name,"),
            ("unknown", "`renames`: `nr` is not among the declared columns (id, at, name)."),
            ("declared_too", "`renames`: `AT`, the former name of `name`, is a declared column or"),
            ("twice", "`renames`: `label`, the former name of `at`, is a declared column or"),
            ("followed", "`renames`: `id` is a key column, and with `key_changes` the resolver's"),
        ):
            assert f"app.{table} (models/sources.yml): {problem}" in said
        assert "5 problem(s)" in said
        assert "app.sound" not in said
