"""The adapter's classes for Spark, as it compiles them; `make e2e` has two processes use S3's."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc import storage
from dbt.adapters.sparkcdc.session import opening
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from tests.conftest import REMOTE

PREPARE = [sys.executable, "-m", "dbt.adapters.sparkcdc.prepare", "--log-store"]
WRITERS = 4
COMMITS = 50


def test_they_are_compiled_for_other_servers(tmp_path: Path) -> None:
    jar = tmp_path / "log-store.jar"
    ran = subprocess.run([*PREPARE, str(jar)], capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    assert ran.stdout == (
        f"{jar} has dbtsparkcdc.LocalLogStore and dbtsparkcdc.S3ConditionalLogStore\n"
    )
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist() == [
            "dbtsparkcdc/LocalContext$Raw.class",
            "dbtsparkcdc/LocalContext.class",
            "dbtsparkcdc/LocalFiles$Raw.class",
            "dbtsparkcdc/LocalFiles.class",
            "dbtsparkcdc/LocalLogStore.class",
            "dbtsparkcdc/S3ConditionalLogStore.class",
        ]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    jar = tmp_path / "missing" / "log-store.jar"
    ran = subprocess.run([*PREPARE, str(jar)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr == (
        f"{jar} cannot be written: No such file or directory. Name a file in a folder that this"
        " user can write.\n"
    )


class Log:
    """A log of Delta, as the adapter's log store writes it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self._java: Any = spark._jvm
        self.conf = self._java.org.apache.hadoop.conf.Configuration(
            spark._jsc.hadoopConfiguration()
        )
        self._store = self._java.dbtsparkcdc.LocalLogStore(self.conf)

    def write(self, name: str, *actions: str, overwrite: bool = False) -> None:
        lines = self._java.java.util.ArrayList()
        for action in actions:
            lines.add(action)
        self._store.write(self._path(name), lines.iterator(), overwrite, self.conf)

    def read(self, name: str) -> list[str]:
        lines = self._store.read(self._path(name), self.conf)
        found = []
        while lines.hasNext():
            found.append(lines.next())
        lines.close()
        return found

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"file:{self.folder / name}")


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Iterator[Log]:
    if REMOTE:
        pytest.skip("A server has its own classes.")
    folder = tmp_path / "a table's log, 100%"
    folder.mkdir()
    yield Log(spark, folder)


def test_of_the_writers_of_a_version_one_succeeds(log: Log) -> None:
    start = threading.Barrier(WRITERS)
    written: list[tuple[str, str]] = []
    refused: list[str] = []

    def commit(writer: str) -> None:
        for version in range(COMMITS):
            start.wait()
            try:
                log.write(f"{version:020}.json", writer)
                written.append((f"{version:020}.json", writer))
            except Exception as exc:
                refused.append(str(exc))

    threads = [threading.Thread(target=commit, args=[f"writer {n}"]) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = sorted(log.folder.iterdir())
    assert [file.name for file in files] == [f"{version:020}.json" for version in range(COMMITS)]
    # What a writer was not refused is what the file holds.
    assert sorted(written) == [(file.name, file.read_text().strip()) for file in files]
    assert len(refused) == COMMITS * (WRITERS - 1)
    assert all("FileAlreadyExistsException" in refusal for refusal in refused)


def test_a_file_is_replaced_whole(log: Log) -> None:
    log.write("_last_checkpoint", "first", overwrite=True)
    # A checksum of Hadoop's, from what wrote the file before.
    (log.folder / "._last_checkpoint.crc").write_bytes(b"crc\0\0\0\2\0\1\2\3\4")
    log.write("_last_checkpoint", "second", "ä", overwrite=True)
    assert log.read("_last_checkpoint") == ["second", "ä"]
    assert [file.name for file in log.folder.iterdir()] == ["_last_checkpoint"]


def test_a_checksum_of_a_removed_file_does_not_count(log: Log) -> None:
    (log.folder / ".1.json.crc").write_bytes(b"crc\0\0\0\2\0\1\2\3\4")
    log.write("1.json", "actions")
    assert log.read("1.json") == ["actions"]


@pytest.mark.parametrize(("mask", "mode"), [("022", 0o644), ("077", 0o600), ("007", 0o660)])
def test_files_have_the_permissions_that_hadoop_gives(log: Log, mask: str, mode: int) -> None:
    log.conf.set("fs.permissions.umask-mode", mask)
    log.write("1.json", "actions")
    assert stat.S_IMODE((log.folder / "1.json").stat().st_mode) == mode


def test_sessions_set_permissions_by_the_adapters_class(log: Log, spark: SparkSession) -> None:
    java: Any = spark._jvm
    log.write("1.json", "actions")
    path = java.org.apache.hadoop.fs.Path(f"file:{log.folder / '1.json'}")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "dbtsparkcdc.LocalFiles"
    for mode in ("640", "777", "400"):
        files.setPermission(path, java.org.apache.hadoop.fs.permission.FsPermission(mode))
        assert stat.S_IMODE((log.folder / "1.json").stat().st_mode) == int(mode, 8)


def test_a_commit_starts_no_process(log: Log, spark: SparkSession) -> None:
    table = str(log.folder / "table")
    spark.range(1).write.format("delta").save(table)
    before = _ticks_of_children(spark)
    for _ in range(COMMITS // 5):
        spark.range(1).write.format("delta").mode("append").save(table)
    # Hadoop's own would start two hundred, which take a hundred ticks. A session that ends at the
    # same time may remove a folder of its own by one.
    assert _ticks_of_children(spark) - before < COMMITS // 5


def _ticks_of_children(spark: SparkSession) -> int:
    """The processor time of the processes that Java started, in hundredths of a second."""
    java = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    values = Path(f"/proc/{java}/stat").read_text().rsplit(")", 1)[1].split()
    return int(values[13]) + int(values[14])


def test_links_on_the_way_are_followed(log: Log, spark: SparkSession) -> None:
    java: Any = spark._jvm
    log.write("1.json", "actions")
    (log.folder / "link").symlink_to(log.folder / "1.json")
    context = java.org.apache.hadoop.fs.FileContext.getFileContext(
        java.java.net.URI("file:///"), spark._jsc.hadoopConfiguration()
    )
    assert context.getDefaultFileSystem().getClass().getName() == "dbtsparkcdc.LocalContext"

    def status(name: str) -> Any:
        path = java.org.apache.hadoop.fs.Path(f"file:{log.folder / name}")
        return context.getFileLinkStatus(path)

    # Hadoop's own takes a link for the file that it leads to, too.
    for name in ("1.json", "link"):
        assert (status(name).isSymlink(), status(name).getLen()) == (False, 8)
    with pytest.raises(Exception, match="FileNotFoundException"):
        status("missing")


def test_a_folder_keeps_the_group_of_what_is_made_in_it(spark: SparkSession, log: Log) -> None:
    log.folder.chmod(0o2775)
    made = log.folder / "a table" / "a partition"
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file:{made}")  # type: ignore[union-attr]
    assert path.getFileSystem(spark._jsc.hadoopConfiguration()).mkdirs(path)
    for folder in (made, made.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o2755


def test_a_read_only_cache_of_an_older_version_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build says what it lacks, and commits as Delta does."""

    def compiled(*arguments: Any) -> Path:
        raise DbtRuntimeError("/cache/jars cannot be written.")

    warned: list[str] = []
    monkeypatch.setattr(storage, "compiled", compiled)
    monkeypatch.setattr(opening._logger, "warning", warned.append)
    local = storage.settings("/data", {})
    assert opening._storage_jar(local, [], tmp_path) is None
    assert warned[0].startswith("/cache/jars cannot be written.\nUntil then")
    with pytest.raises(DbtRuntimeError, match="cannot be written"):
        opening._storage_jar(storage.settings("s3a://lake", {}), [], tmp_path)
