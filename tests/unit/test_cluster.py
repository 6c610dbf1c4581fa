"""The cluster's parts that need neither Spark nor PostgreSQL."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster import control, metastore, processes, spark
from cluster.__main__ import main
from cluster.options import Folder, Options, Problem
from cluster.processes import Process

SLEEPS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    *(sys.executable, "-c"),
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print('up', flush=True); time.sleep(60)",
]


def started(folder: Path, command: list[str], name: str = "one") -> Process:
    log = folder / f"{name}.log"
    process = processes.start(name, command, log, os.environ, folder)
    end = time.monotonic() + 20
    while "up" not in log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    return process


def test_all_that_is_wrong_with_options_is_told_at_once() -> None:
    options = Options(master=80, connect=10000, thrift=10000, workers=0, executor_memory="lots")
    with pytest.raises(Problem) as error:
        options.checked()
    for told in (
        "--master-port 80 is not a port",
        "--thrift-port and --connect-port are both 10000",
        "--workers 0 is not from 1 to 16",
        "--executor-memory 'lots' is not a size",
    ):
        assert told in str(error.value)
    assert Options().checked() == Options()


def test_options_of_another_version_are_read() -> None:
    assert Options.of({"workers": 3, "color": "red"}) == Options(workers=3)


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    process = started(tmp_path, SLEEPS)
    another = Process(process.name, process.pid, process.began + "1")
    try:
        assert process.runs and not another.runs
        assert not processes.stop(another)  # not the one that was started
        assert process.runs
    finally:
        assert processes.stop(process, seconds=5)
    assert not process.runs and not processes.stop(process)
    assert stat.S_IMODE((tmp_path / "one.log").stat().st_mode) == 0o600


def test_what_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    process = started(tmp_path, STUBBORN)
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout.split()
    assert children
    assert processes.stop(process, seconds=0.5)
    end = time.monotonic() + 10
    while any(processes.began(int(child)) for child in children):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_process_that_ends_says_why(tmp_path: Path) -> None:
    says = (
        "print('Exception: no room'); print('\\tat org.Stack(Trace.java:1)'); raise SystemExit(1)"
    )
    command = [sys.executable, "-c", f"import time; time.sleep(0.3); {says}"]
    log = tmp_path / "one.log"
    process = processes.start("one", command, log, os.environ, tmp_path)
    with pytest.raises(Problem, match=r"one has ended.*\n.*no room$"):
        processes.wait_for(process, 9, log)


def test_state_is_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "processes.json"
    assert processes.read(file) == ({}, [])
    listed = [Process("master", 1, "then"), Process("connect", 2, "later")]
    processes.write(file, asdict(Options(workers=3)), listed)
    known, found = processes.read(file)
    assert (Options.of(known).workers, found) == (3, listed)
    file.write_text("{}")
    with pytest.raises(Problem, match="cannot be read"):
        processes.read(file)


def test_taken_ports_are_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as b:
        first, second = one.getsockname()[1], b.getsockname()[1]
        with pytest.raises(Problem, match=rf"connect \({first}\), thrift \({second}\)"):
            control.up(Folder(tmp_path), Options(connect=first, thrift=second), print)
    assert not (tmp_path / "processes.json").exists()
    assert not (tmp_path / "postgres").exists()


def test_a_cluster_that_runs_in_part_is_not_started_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    process = started(tmp_path, SLEEPS)
    gone = Process("connect", process.pid, "before")
    processes.write(folder.processes, asdict(Options()), [process, gone])
    try:
        with pytest.raises(Problem, match="runs in part: connect ended"):
            control.up(folder, Options(), print)
        result = CliRunner().invoke(main, ["--folder", str(tmp_path), "status"])
        assert result.exit_code == 3 and "connect" in result.output and "ended" in result.output
        with pytest.raises(Problem, match="no process 'worker-9'"):
            control.restart(folder, "worker-9")
        with pytest.raises(Problem, match=f"one runs. End it first: kill {process.pid}"):
            control.restart(folder, "one")
        said: list[str] = []
        assert control.down(folder, said.append) and said == ["Stopped: one."]
    finally:
        processes.stop(process)
    assert not folder.processes.exists() and not control.down(folder, said.append)


def test_servers_stop_before_what_they_need() -> None:
    names = ["metastore", "master", "worker-1", "worker-2", "connect", "thrift"]
    order = control._stop_order([Process(name, 1, "") for name in names])
    assert [process.name for process in order] == [
        *("thrift", "connect", "worker-2", "worker-1", "master", "metastore")
    ]


def test_secrets_stay_and_are_their_owners_alone(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    made = control._secrets(folder)
    assert control._secrets(folder) == made and len(set(made.values())) == 3
    assert stat.S_IMODE(folder.secrets.stat().st_mode) == 0o600
    folder.secrets.write_text(json.dumps({"rpc": "x"}))
    with pytest.raises(Problem, match="Restore the file, or begin anew"):
        control._secrets(folder)


def test_no_command_and_no_setting_of_sessions_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "packages", lambda: [Path("/jars/delta.jar")])
    monkeypatch.setenv("SPARK_MASTER_HOST", "elsewhere")
    monkeypatch.setenv("DBT_ENV_SECRET_OTHER", "theirs")
    folder, options = Folder(tmp_path), Options()
    folder.conf.mkdir()
    secrets = {"rpc": "hush-rpc", "metastore": "hush <&> password", "token": "hush-token"}
    spark.configure(folder, options, secrets)
    for words in spark.commands(options).values():
        assert "hush" not in " ".join(words)
    files = {file.name: file for file in folder.conf.iterdir()}
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files.values())
    defaults = files["spark-defaults.conf"].read_text()
    assert "spark.authenticate.secret hush-rpc\n" in defaults
    assert "password" not in defaults and "hush-token" not in defaults
    hive = {
        found.findtext("name"): found.findtext("value")
        for found in ET.parse(files["hive-site.xml"]).getroot()
    }
    assert hive["javax.jdo.option.ConnectionPassword"] == secrets["metastore"]
    # Sessions that begin at the same moment do not make the same folder.
    assert "${hive.session.id}" in hive["hive.downloaded.resources.dir"]
    for name in spark.commands(options):
        variables = spark.environment(folder, name, secrets)
        assert "SPARK_MASTER_HOST" not in variables and "DBT_ENV_SECRET_OTHER" not in variables
        assert ("hush-token" in variables.values()) is (name == "connect")
        # For the servers it would stand instead of their own memory.
        assert ("SPARK_DAEMON_MEMORY" in variables) is (name not in spark.SERVERS)


def test_postgresql_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metastore, "OLDEST", 99)
    with pytest.raises(Problem, match="apt-get install postgresql-15"):
        metastore.programs()


def test_the_command_shows_what_is_wrong(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--folder", str(tmp_path / "x"), "up", "--workers", "99"])
    assert result.exit_code == 1 and "--workers 99" in result.output
    assert "Traceback" not in result.output and not (tmp_path / "x").exists()
    result = CliRunner().invoke(main, ["--folder", str(tmp_path / "x"), "down"])
    assert result.exit_code == 0 and result.output == "No cluster runs.\n"
    environment = {"CDC_CLUSTER_WORKERS": "77"}
    result = CliRunner().invoke(main, ["--folder", str(tmp_path / "x"), "up"], env=environment)
    assert "--workers 77" in result.output
