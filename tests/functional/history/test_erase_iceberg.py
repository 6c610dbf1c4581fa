"""Erasure from Iceberg tables: the same test, and what only their files hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.adapters.sparkcdc.erasure import avro_file, table_files
from dbt.adapters.sparkcdc.erasure import iceberg as iceberg_erasure
from dbt.adapters.sparkcdc.iceberg import tables as iceberg

from tests.functional.history import iceberg_files, test_erase
from tests.functional.history.tables import histories

pytestmark = pytest.mark.extended

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


@pytest.mark.soak
class TestEraseIceberg(test_erase.TestErase):
    has_other_files = False
    refusals = test_erase.CONDITIONS
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


def content(file: Path) -> bytes:
    """The name and the bytes of a file, and what is compressed in them."""
    found = file.read_bytes()
    if file.suffix == ".parquet":
        found += repr(pq.ParquetFile(file).read().to_pylist()).encode()
    if file.suffix == ".avro":
        found += b"".join(avro_file.blocks(found))
    return str(file).encode() + found


@pytest.fixture
def folder(warehouse: Path) -> Path:
    return warehouse.with_name("iceberg") / "erased"


def create(spark: Any, name: str, **properties: str) -> None:
    """A table with a person whose manifest also has a file of somebody else."""
    given = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    spark.sql(f"drop table if exists {name}")
    spark.sql(
        f"create table {name} (id bigint, email string, city string) using iceberg"
        f" partitioned by (city) tblproperties ({given})"
    )
    people = "select id, concat('p', id, '@example.com'), 'Bern' from range({0}, {1})"
    spark.sql(f"insert into {name} {people.format(10, 50)}")
    spark.sql(f"insert into {name} {people.format(50, 60)}")
    spark.sql(
        f"insert into {name} values (7, 'seven@example.com', 'Bern'), (8, 'z@example.com', 'Bern'),"
        " (7, 'seven@example.com', 'Sevenoaks'), (71, 'basel@example.com', 'Basel')"
    )
    spark.sql(f"update {name} set email = 'seven.renamed@example.com' where id = 7")
    spark.sql(f"delete from {name} where id = 12")


# Any two of these meet in one of the first four.
WAYS = [
    ("2", "merge-on-read", True),
    ("3", "merge-on-read", False),
    ("2", "copy-on-write", False),
    ("3", "copy-on-write", True),
    pytest.param("2", "merge-on-read", False, marks=pytest.mark.soak),
    pytest.param("3", "merge-on-read", True, marks=pytest.mark.soak),
    pytest.param("2", "copy-on-write", True, marks=pytest.mark.soak),
    pytest.param("3", "copy-on-write", False, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("version", "mode", "is_gone"), WAYS)
def test_no_file_is_left(spark: Any, folder: Path, version: str, mode: str, is_gone: bool) -> None:
    name = f"{CATALOG}.erased.v{version}_{mode[:4]}"
    modes = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
    kept = {
        "write.metadata.previous-versions-max": "40",
        "write.metadata.compression-codec": "gzip",
    }
    create(spark, name, **modes, **kept, **{"format-version": version})
    where = folder / name.rpartition(".")[2]
    if is_gone:  # nobody knows any more which files held the person
        spark.sql(f"delete from {name} where id = 7")
    assert iceberg_erasure.problems(spark, name) == []
    pq.write_table(pa.table({"v": ["seven"]}), where / "data" / "left-behind.parquet")
    (where / "metadata" / "v0.metadata.json").write_text("seven")
    alone = {path for path in where.rglob("*.parquet") if b"'id': 55" in content(path)}
    spark.sql(f"delete from {name} where id = 7")
    iceberg_erasure.purge(spark, spark.sql, name)
    iceberg_erasure.forget_past(spark, name, '{"x": 1}')
    left = [path for path in where.rglob("*") if path.is_file()]
    assert [path for path in left if b"seven" in content(path).lower()] == []
    assert not list(where.rglob("*Seven*"))
    # A file without deleted rows is the one that it was.
    assert len(alone) == 1 and alone <= set(left)
    assert len(spark.sql(f"select * from {name}.snapshots").collect()) == 1
    people = spark.sql(f"select id, city from {name} order by id").collect()
    assert [row[0] for row in people] == [8, 10, 11, *range(13, 60), 71]
    table = iceberg.load(spark, name)
    assert iceberg.newest_commits(table, None)[0]["userMetadata"] == '{"x": 1}'
    settings = iceberg.properties(table)
    assert settings["write.metadata.previous-versions-max"] == "40"
    assert "write.metadata.delete-after-commit.enabled" not in settings
    assert iceberg_erasure.KEPT_SETTINGS not in settings
    spark.sql(f"insert into {name} values (60, 'later@example.com', 'Bern')")
    # Manifests keep the first 16 characters.
    for beginnings, kinds in (([], {".parquet"}), (["later@example.c"], {".parquet", ".avro"})):
        found = table_files.search(where, ["later@example.com"], None, {}, beginnings)
        assert {Path(file).suffix for file in found.holding} == kinds
    assert iceberg_erasure.truncations(table) == set()
    keys = pa.table({"id": pa.array([60], pa.int64())})
    spark.sql(f"alter table {name} rename column id to number")
    ids = iceberg_erasure.key_ids(iceberg.load(spark, name), ["number"])
    found = table_files.search(where, [], keys.rename_columns(["number"]), ids)
    assert len(found.holding) == 1


def test_deletes_by_key_are_applied(spark: Any, folder: Path) -> None:
    """As Flink writes them: a file that holds the keys of deleted rows."""
    name = f"{CATALOG}.erased.by_key"
    spark.sql(f"drop table if exists {name}")
    spark.sql(
        f"create table {name} (id bigint, email string) using iceberg"
        " tblproperties ('format-version' = '2')"
    )
    spark.sql(f"insert into {name} select id, 'nobody@example.com' from range(100, 110)")
    spark.sql(f"insert into {name} values (7, 'seven@example.com'), (8, 'eight@example.com')")
    where = folder / "by_key"
    keys = pa.table({"email": ["seven@example.com"]})
    iceberg_files.commit(spark, name, where, deleted_keys=keys)
    assert spark.sql(f"select count(*) from {name} where id < 10").first()[0] == 1
    iceberg_erasure.purge(spark, spark.sql, name)
    iceberg_erasure.forget_past(spark, name, "{}")
    assert not [file for file in where.rglob("*") if file.is_file() and b"seven" in content(file)]
    assert spark.sql(f"select count(*) from {name}").first()[0] == 11


def test_what_cannot_be_erased_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{CATALOG}.erased.refused"
    create(spark, name, **{"write.format.default": "avro"})
    table = iceberg.load(spark, name)
    head = table.currentSnapshot().snapshotId()
    table.manageSnapshots().createTag("year end", head).createBranch("trial", head).commit()
    spark.sql(
        f"alter table {name} set tblproperties ('gc.enabled' = 'false',"
        " 'write.data.path' = 's3://bucket/data')"
    )
    said = iceberg_erasure.problems(spark, name)
    assert [part for part in said if name not in part] == []
    for one, words in zip(
        said,
        (
            "s3://bucket/data, which is not on a disk",
            "set tblproperties ('gc.enabled' = 'true')",
            "drop branch `trial`, drop tag `year end`",
            "files of AVRO, which are not searched",
        ),
        strict=True,
    ):
        assert words in one, one
    # Files of a table may be in another folder, and one that died leaves its settings behind.
    other = tmp_path / "other files"
    create(spark, name, **{"write.data.path": f"file:{other}"})
    settings = iceberg_erasure.FORGETTING
    before = iceberg.properties(iceberg.load(spark, name))

    def dies(spark: Any, name: str) -> None:
        change = iceberg.load(spark, name).updateProperties()
        former = json.dumps(dict.fromkeys(settings))
        change = change.set(iceberg_erasure.KEPT_SETTINGS, former)
        for setting, value in settings.items():
            change = change.set(setting, value)
        change.commit()
        raise RuntimeError("killed")

    spark.sql(f"delete from {name} where id = 7")
    iceberg_erasure.purge(spark, spark.sql, name)
    with monkeypatch.context() as patch:
        patch.setattr(iceberg_erasure, "_forget_metadata", dies)
        with pytest.raises(RuntimeError, match="killed"):
            iceberg_erasure.forget_past(spark, name, "{}")
    iceberg_erasure.forget_past(spark, name, "{}")
    assert iceberg.properties(iceberg.load(spark, name)) == before
    assert other in iceberg_erasure.folders(iceberg.load(spark, name))
    assert not list(other.rglob("*Seven*")) and list(other.rglob("*.parquet"))
    assert not [file for file in other.rglob("*.parquet") if b"seven" in content(file)]
