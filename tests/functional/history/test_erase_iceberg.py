"""Erasure from tables of Iceberg: the same test, and what only their files hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc import avro_file, erasure, iceberg, iceberg_erasure
from dbt.adapters.sparkcdc.cursor import literal

from tests.functional.history import test_erase
from tests.functional.history.tables import histories

CATALOG = "ice"
BUILT = ["people_history", "people_history_tombstones", "people_final", "people_changes"]
BUILT += ["visits_final"]
# Version 2 marks deleted rows in files of Parquet, version 3 in deletion vectors.
OPTIONS = {
    "people_final": "file_format='iceberg', write_mode='copy-on-write'",
    "people_changes": "file_format='iceberg'",
    "visits_final": "file_format='iceberg', format_version=3",
}


@pytest.fixture(scope="class")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    return {**dbt_profile_target, "iceberg_catalog": CATALOG}


class TestEraseIceberg(test_erase.TestErase):
    has_other_files = False
    after_refresh = ("--full-refresh",)
    history = "file_format: iceberg"
    final = OPTIONS["people_final"]

    def bodies(self) -> dict[str, str]:
        found = super().bodies()
        for name, options in (OPTIONS | {"people_final": self.final}).items():
            text = found[f"{name}.sql"].replace("file_format='delta'", "").replace(", )", ")")
            found[f"{name}.sql"] = text.replace("config(", f"config({options}, ")
        return found

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        found = histories(people_history="stg_people")
        return {k: text.replace("file_format: delta", self.history) for k, text in found.items()}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        built = rf"\{{s\}}\.({'|'.join(BUILT)})\b"
        return super().rows(re.sub(built, rf"{CATALOG}.{{s}}.\1", query))

    def folder(self, table: str) -> Path:
        if table not in BUILT:
            return super().folder(table)
        return self.warehouse.with_name("iceberg") / self.project.test_schema / table

    def content(self, file: Path) -> bytes:
        content = super().content(file)
        if file.suffix == ".avro":
            content += b"".join(avro_file.blocks(content))
        return content

    def writes(self, table: str) -> int:
        if table not in BUILT:
            return super().writes(table)
        written = "select 1 from {s}.TABLE.snapshots where summary['cdc.follows'] is null"
        return len(self.rows(written.replace("TABLE", table)))
