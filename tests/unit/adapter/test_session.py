from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.errors import message_of
from dbt.adapters.sparkcdc.session.opening import close_session, open_session
from dbt_common.exceptions import DbtRuntimeError

# With characters that a file of properties and a shell take for their own.
SECRET = {
    "spark.hadoop.secret.key": "hush: =#!\\ $HOME 'a' \"\u00fc\" %d {x}",
    "spark.hadoop.lines": "hush\nand\tso on",
}
QUIET = """
import json, os, signal, sys
from pathlib import Path
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.opening import end_of_java, open_session
SECRET = json.loads(sys.argv[3])
creds = SparkCdcCredentials(
    schema="x", warehouse=sys.argv[1], spark_log=sys.argv[2], server_side_parameters=SECRET
)
spark = open_session(creds)
java = spark._jvm.java.lang.ProcessHandle.current().pid()
for seen in ("cmdline", "environ"):
    file = Path(f"/proc/{java}/{seen}")
    assert not file.exists() or b"hush" not in file.read_bytes()
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
for name, value in SECRET.items():
    found = hadoop.get(name.removeprefix("spark.hadoop."))
    assert found == value, (found, value)
assert spark.conf.get("spark.authenticate") == "true"
spark.sql("create table t using delta as select 1 as id")
for query in ("select nope from t", "selec 1"):
    try:
        spark.sql(query).collect()
    except Exception:
        pass
print(spark.table("t").collect())
assert end_of_java(creds) is None
os.kill(java, signal.SIGKILL)
try:
    spark.sql("select 1").collect()
except Exception as exc:
    print(end_of_java(creds, exc))
try:
    open_session(creds)
except Exception as exc:
    print(exc.msg)
print(end_of_java(creds))
"""


def test_sessions_have_their_own_views_and_settings(credentials: SparkCdcCredentials) -> None:
    together = Barrier(2)

    def read_back(number: int) -> tuple[int, str]:
        spark = open_session(credentials)
        spark.sql(f"create temporary view mine as select {number} as id")
        spark.conf.set("spark.sql.shuffle.partitions", number)
        together.wait()
        found = spark.table("mine").first()["id"], spark.conf.get("spark.sql.shuffle.partitions")
        together.wait()
        close_session(spark)
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(read_back, (3, 4))) == [(3, "3"), (4, "4")]
    later = open_session(credentials)
    assert later.catalog.listTables() == [] or not later.catalog.tableExists("mine")
    close_session(later)


def test_hadoop_forgets_where_its_settings_are_from(credentials: SparkCdcCredentials) -> None:
    spark = open_session(credentials)
    # It loads what brings settings along.
    spark.sql("create table written using delta as select 1 as id")
    sent = spark._jsparkSession.sessionState().newHadoopConf()
    assert sent.get("fs.defaultFS") == "file:///"
    for name in ("fs.defaultFS", "mapreduce.job.maps"):
        assert sent.get(name)
        assert sent.getPropertySources(name) is None
    spark.sql("drop table written")
    close_session(spark)


def test_the_threads_active_session_is_its_own(credentials: SparkCdcCredentials) -> None:
    def active() -> bool:
        spark = open_session(credentials)
        sessions = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
        return spark._jsparkSession.equals(sessions.active())

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(active).result()


def test_another_warehouse_needs_another_process(
    credentials: SparkCdcCredentials, tmp_path: Path
) -> None:
    open_session(credentials)
    other = SparkCdcCredentials(schema="x", warehouse=str(tmp_path))
    with pytest.raises(DbtRuntimeError, match="in a process of its own"):
        open_session(other)


def test_nothing_is_printed_and_the_process_ends_also_without_java(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "spark.log"
    done = subprocess.run(
        [sys.executable, "-c", QUIET, str(tmp_path / "warehouse"), str(log), json.dumps(SECRET)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        # As a process has them that used a server before.
        env=os.environ | {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": "sc://nowhere"},
    )
    assert (done.stderr, done.returncode) == ("", 0)
    rows, *said, ended = done.stdout.splitlines()
    assert rows == "[Row(id=1)]"
    # Of a Java that is gone the adapter says so, and neither the error of a socket nor its stack.
    assert said == [ended, ended]
    assert ended.startswith("Spark's Java process was killed")
    assert str(log) in ended and "spark.driver.memory" in ended
    assert log.stat().st_size > 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["logs", "warehouse"]


def test_messages_are_short(credentials: SparkCdcCredentials) -> None:
    spark = open_session(credentials)
    for query, words in {
        "select nope from range(1)": "`nope` cannot be resolved",
        "select 1 +": "end of input",
        "select raise_error('stop here')": "stop here",
        "select * from cdc_bootstrap__app_people": "no cdc_bootstrap__app_people. Take it first",
    }.items():
        with pytest.raises(Exception) as error:
            spark.sql("\n" * 50 + query).collect()
        message = message_of(error.value)
        assert words in message
        assert len(message.splitlines()) < 12
        assert "Project" not in message and "\tat " not in message


NO_START = """
import sys
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.opening import open_session
from dbt_common.exceptions import DbtRuntimeError
wrong = {"spark.sql.catalog.spark_catalog": "no.such.Catalog"}
creds = SparkCdcCredentials(
    schema="x", warehouse=sys.argv[1], spark_log=sys.argv[2], server_side_parameters=wrong
)
try:
    open_session(creds)
except DbtRuntimeError as exc:
    print(exc)
"""


def test_a_start_that_fails_names_the_cause(tmp_path: Path) -> None:
    # Spark's exceptions ask their Java process for the text, and a failed start ends it.
    run = subprocess.run(
        [sys.executable, "-c", NO_START, str(tmp_path / "warehouse"), str(tmp_path / "spark.log")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Spark did not start" in run.stdout
    assert "no.such.Catalog" in run.stdout
