"""Erasure from landed files: the lines go, and landing takes what is left for what it landed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.erasure import landed_files
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history.tables import FINAL, histories, rows
from tests.functional.test_landing import CONFIG, MODEL

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: shop
    schema: "{{ target.schema }}_raw"
    tables:
      - name: people
        identifier: shop
        config: {meta: {cdc: {format: wal2json_v2, landed: true, keys: [id]}}}
        columns:
          - {name: id, data_type: bigint}
          - {name: email, data_type: string}
"""
STAGING = """
-- depends_on: {{ ref('landing') }}
{{ cdc.events(source('shop', 'people')) }}
"""
PERSON = "seven"


def line(key: int, at: int, email: str) -> str:
    columns = [
        {"name": "id", "type": "bigint", "value": key},
        {"name": "email", "type": "text", "value": email},
    ]
    change = {"action": "I" if at < 100 else "U", "timestamp": "2026-11-21 01:43:38.091038+00"}
    change |= {"lsn": f"0/{at:X}", "schema": "shop", "table": "people", "columns": columns}
    return json.dumps(change) + "\n"


class TestEraseLanded:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("landing")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        return {
            "landing.py": MODEL,
            "landing.yml": CONFIG.format(folder=folder),
            "sources.yml": SOURCES,
            "stg_people.sql": STAGING,
            "people_final.sql": FINAL.format(read="people_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(people_history="stg_people")

    @pytest.fixture(autouse=True)
    def prepare(self, project: Any, folder: Path) -> Iterator[None]:
        self.project, self.folder = project, folder
        yield

    def put(self, name: str, *lines: str) -> Path:
        file = self.folder / "people" / name
        file.parent.mkdir(exist_ok=True)
        content = "".join(lines).encode()
        file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return file

    def erase(self, *, passes: bool = True, **args: Any) -> str:
        command = ["run-operation", "cdc_erase", "--args", json.dumps(args)]
        result, said = run_dbt_and_capture(command, expect_pass=None)  # type: ignore[arg-type]
        assert all(part.status == "success" for part in result) == passes, said
        return said

    def holding(self, text: str) -> set[str]:
        found = set()
        for file in self.folder.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                if content[:2] == b"\x1f\x8b":
                    content = gzip.decompress(content)
                if text.encode() in content:
                    found.add(file.name)
        return found

    def state(self) -> list[Any]:
        """The rows of the others, and where their events came from."""
        queries = (
            "select id, email, _seq, _seq_end from {s}.people_history where id <> 7 order by all",
            "select * from {s}.people_final where id <> 7 order by all",
            "select _file, _row, value from {s}_raw.shop where value not like '%seven%'"
            " order by all",
        )
        return [rows(self.project, query) for query in queries]

    def landed(self) -> list[Any]:
        """What landing has ever done."""
        queries = (
            "select count(*), max(_batch), count_if(_problem is not null) from {s}_raw.shop",
            "select _file, _batch, lines, problem from {s}.landing order by all",
        )
        return [rows(self.project, query) for query in queries]

    @pytest.mark.usefixtures("package")
    def test_one_after_the_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = self.put(
            "a.jsonl", line(1, 1, "one"), line(7, 2, "seven@old.com"), "\n", line(2, 3, "two")
        )
        os.utime(first, ns=(5_000_000_000, 1_234_567_890_123_456_789))
        shutil.copy2(first, first.with_name("copy.jsonl"))
        self.put("only.jsonl", line(7, 4, "seven@only.com"))
        packed = self.put("b.jsonl.gz", line(7, 5, "seven@packed.com"), line(8, 6, "eight"))
        run_dbt(["build"])
        packed.rename(packed.with_name("moved.jsonl.gz"))
        self.put("c.jsonl", line(8, 101, "eight.new"), line(7, 102, "seven@new.com"))
        broken = self.put("broken.jsonl.gz", line(7, 8, "seven@broken.com"))
        broken.write_bytes(broken.read_bytes()[:-8])
        run_dbt(["build"])
        before, landed = self.state(), self.landed()
        files = {file.name: file.read_bytes() for file in self.folder.rglob("*.*")}
        args = {"table": "people_history", "where": "email like 'seven%'"}
        said = self.erase(passes=False, **args)
        assert "Add `landed_files: true`" in said and str(self.folder) in said
        args["landed_files"] = True
        said = self.erase(passes=False, **args)
        assert "broken.jsonl.gz: gzip file is cut off" in said and "Delete it" in said
        broken.unlink()
        files.pop(broken.name)
        # Landing has not unpacked them: they may hold a person of whom nothing is landed, too.
        for name in ("archive.jsonl.ZST", "archive.bz2"):
            archive = self.put(name, line(9, 9, "nine"))
            for person in (args, {"table": "shop.people", "keys": [9], "landed_files": True}):
                said = self.erase(passes=False, **person)
                assert name in said and "move it out of the folder" in said
            archive.unlink()
        said = self.erase(**args)
        assert "5 lines of 5 files" in said
        assert {file.name: file.read_bytes() for file in self.folder.rglob("*.*")} == files
        assert [self.state(), self.landed()] == [before, landed]

        # It dies when the raw table knows what the files are to hold; landing runs meanwhile.
        def dies(adapter: Any, folder: str) -> int:
            raise DbtRuntimeError("killed here")

        with monkeypatch.context() as patch:
            patch.setattr(SparkCdcAdapter, "replace_landed_files", dies)
            assert "killed here" in self.erase(passes=False, dry_run=False, **args)
        run_dbt(["build"])
        assert self.state() == before
        self.erase(dry_run=False, **args)
        assert self.holding(PERSON) == set()
        assert self.holding("eight.new") == {"c.jsonl"}
        assert not list(self.folder.rglob(".*"))
        assert not (self.folder / "people" / "only.jsonl").exists()
        assert first.read_text() == line(1, 1, "one") + "\n\n" + line(2, 3, "two")
        assert first.stat().st_mtime_ns == 1_234_567_890_123_456_789
        certificate = (
            "select role, sum(rows_removed), sum(files_holding), max(files_searched)"
            " from {s}.cdc_erasure_certificates group by role order by role"
        )
        found = {row[0]: row[1:] for row in rows(self.project, certificate)}
        assert set(found) == {"final", "history", "landed", "raw"}
        assert {row[1] for row in found.values()} == {0} and found["landed"][2] == 4
        # The run that died has removed the rows and lines already.
        assert found["landed"][0] == found["raw"][0] == 0

        # Nothing was replaced, and nothing is landed again: from the log, the raw table, the files.
        landed = self.landed()
        log = {row[0]: row[3] for row in landed[1]}
        assert [name for name, problem in log.items() if "replaced" in (problem or "")] == []
        run_dbt(["build"])
        assert [self.state(), self.landed()] == [before, landed]
        run_dbt(["build", "--full-refresh"])
        assert self.state() == before and self.landed()[0] == landed[0]
        self.project.run_sql(f"drop table {self.project.test_schema}_raw.shop")
        run_dbt(["build"])
        again = self.state()
        assert again[:2] == before[:2]
        # Their lines have the numbers that they had.
        lines = [sorted(row[1:] for row in found[2]) for found in (before, again)]
        assert lines[0] == lines[1]
        assert not rows(self.project, "select 1 from {s}_raw.shop where value like '%seven%'")

        # A file that comes later is landed, not decoded, and loses its lines with the next call.
        self.put("late.jsonl", line(7, 103, "seven@late.com"), line(1, 104, "one.new"))
        run_dbt(["build"])
        count = "select count(*), count_if(id = 7) from {s}.people_final"
        assert rows(self.project, count)[0][1] == 0
        email = "select email from {s}.people_final where id = 1"
        assert rows(self.project, email) == [("one.new",)]
        # So is one that was landed and not read before the call: the others' lines are read then.
        self.put("unread.jsonl", line(7, 105, "seven@unread.com"), line(1, 106, "one.last"))
        run_dbt(["run", "--select", "landing"])
        assert "2 lines of 2 files" in self.erase(
            table="shop.people", landed_files=True, dry_run=False
        )
        assert self.holding(PERSON) == set()
        assert self.holding("one.new") == {"late.jsonl"}
        assert self.holding("one.last") == {"unread.jsonl"}

        # What cannot be decoded stays, and is found.
        self.put("bad.jsonl", '{"action": "U", "email": "eight.new"\n')
        run_dbt(["build"])
        assert rows(self.project, email) == [("one.last",)]
        said = self.erase(table="shop.people", keys=[8], landed_files=True, dry_run=False)
        assert self.holding("eight") == {"bad.jsonl"}
        assert "files hold the person: people/bad.jsonl" in said
        assert landed_files.BESIDE not in str(list(self.folder.rglob("*")))

        # Maintenance reaches what landing writes, by the name of the model.
        command = ["run-operation", "cdc_vacuum", "--args", "{table: landing}"]
        said = run_dbt_and_capture(command)[1]
        assert re.findall(r"cdc: (\w+): ", said) == ["landing", "shop"]

    def test_a_folder_that_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        args = {"table": "people_history", "keys": [1], "landed_files": True}
        access = os.access

        def locked(path: Any, mode: int) -> bool:
            return self.folder not in Path(path).parents and access(path, mode)

        with monkeypatch.context() as patch:
            patch.setattr(os, "access", locked)
            assert "this user may not write in" in self.erase(passes=False, **args)
        away = self.folder.with_name("away")
        self.folder.rename(away)
        assert "does not exist" in self.erase(passes=False, **args)
        away.rename(self.folder)
