"""A Spark standalone cluster: two workers, a Connect and a Thrift server, one metastore for all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scripts import build
from tests.e2e.many import ENDLESS, Many
from tests.e2e.servers import free_port

pytest.importorskip("grpc", reason="pyspark's Connect client is missing: run `make e2e`")
pytest.importorskip("pyhive.hive", reason="PyHive is missing: run `make e2e`")

from cluster import control, metastore
from cluster.options import Folder, Options, Problem

ROOT = Path(__file__).resolve().parents[2]
TABLES = int(os.environ.get("TABLES", "65"))
# Those of the tests in which something breaks.
FEW = int(os.environ.get("FEW", "6"))
IDLE_SECONDS = 3
PATIENCE = 60

SHOP = ("macros", "models", "python_models", "snapshots", "seeds", "tests/generic")
SHOP += ("tests/singular", "tests/macros", "dbt_project.yml", "profiles.yml", "selectors.yml")
# A part of the tests that draw events; they run on the cluster as they do without one.
PROPERTIES = "tests/functional/history/test_one_answer.py::TestOneAnswer"


class Running:
    """The cluster of these tests."""

    def __init__(self, folder: Folder, options: Options) -> None:
        self.folder, self.options = folder, options
        self.environment = control.connection(folder, options)

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session of the Connect server."""
        from pyspark.sql import SparkSession

        token = self.environment["DBT_ENV_SECRET_CDC_TOKEN"]
        spark = SparkSession.builder.remote(
            f"{self.environment['CDC_REMOTE']}/;token={token}"
        ).create()
        try:
            yield spark
        finally:
            spark.stop()

    def process(self, name: str) -> control.Process:
        return control.find(self.folder).process(name)

    def kill(self, name: str) -> None:
        """Ends a process, and what it has started, as a crash does."""
        process = self.process(name)
        os.killpg(process.pid, signal.SIGKILL)
        while process.runs:
            time.sleep(0.01)

    def pids(self) -> list[int]:
        """All processes, executors included."""
        leaders = {process.pid for process in control.find(self.folder).processes}
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(place.name)) in leaders:
                    found.append(int(place.name))
            except ProcessLookupError:
                continue
        return found

    def executors(self) -> list[int]:
        return [pid for pid in self.pids() if "CoarseGrainedExecutorBackend" in arguments(pid)]

    def busy(self, seconds: float = IDLE_SECONDS) -> float:
        """Processors that the executors keep busy."""
        executors = self.executors()
        before = sum(map(ticks, executors))
        time.sleep(seconds)
        return (sum(map(ticks, executors)) - before) / os.sysconf("SC_CLK_TCK") / seconds

    def until_whole(self) -> None:
        """Starts again what has ended."""
        for name in control.find(self.folder).missing:
            control.restart(self.folder, name)


def arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def ticks(pid: int) -> int:
    """Processor time of a process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return sum(map(int, stat.rpartition(")")[2].split()[11:13]))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Running]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("these tests look at processes in /proc")
    try:
        metastore.programs()
    except Problem as problem:
        pytest.skip(str(problem))
    # PostgreSQL's own user cannot pass through pytest's folders.
    folder = Folder(Path(tempfile.mkdtemp(prefix="cdc-cluster-")))
    options = Options(
        master=free_port(),
        ui=free_port(),
        connect=free_port(),
        thrift=free_port(),
        metastore=free_port(),
    )
    try:
        control.up(folder, options, print)
        yield Running(folder, options)
    finally:
        control.down(folder, print)
        shutil.rmtree(folder.path, ignore_errors=True)


@pytest.fixture
def whole(cluster: Running) -> Iterator[Running]:
    """The cluster, whole again after a test that breaks it."""
    yield cluster
    cluster.until_whole()


@pytest.fixture
def few(whole: Running, tmp_path: Path) -> Many:
    """A few tables, of which the first batch has arrived."""
    with whole.session() as spark:
        spark.sql("drop database if exists many cascade").collect()
    return made(tmp_path / "few", FEW, whole)


def made(folder: Path, count: int, cluster: Running) -> Many:
    many = Many(folder, count, cluster.environment)
    status, said = many.dbt("run-operation", "make_raw")
    assert not status, said
    return many


def is_right(many: Many, cluster: Running) -> None:
    with cluster.session() as spark:
        assert many.found(spark) == many.expected()
        # A row, and for all batches after the first one a version of every key that has events.
        assert many.versions(spark) >= len(many.expected())


# The cluster itself.


def test_it_listens_to_this_machine_only_and_keeps_its_secrets(cluster: Running) -> None:
    listening = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                listening[fields[9]] = fields[1].rpartition(":")[0]
    addresses = set()
    for pid in cluster.pids():
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(handle)
            except OSError:
                continue
            if target.startswith("socket:[") and target[8:-1] in listening:
                addresses.add(listening[target[8:-1]])
    assert addresses
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses <= loopback

    secrets = list(json.loads(cluster.folder.secrets.read_text()).values())
    shown = [arguments(pid) for pid in cluster.pids()]
    shown += [log.read_text(errors="replace") for log in cluster.folder.logs.iterdir()]
    assert not [secret for secret in secrets for text in shown if secret in text]
    with cluster.session() as spark:
        settings = {row["key"]: row["value"] for row in spark.sql("set").collect()}
    assert not set(secrets) & set(settings.values())
    holding = [
        file
        for file in cluster.folder.path.rglob("*")
        if file.is_file() and any(s in file.read_text(errors="replace") for s in secrets)
    ]
    assert {file.name for file in holding} >= {"env", "secrets.json", "hive-site.xml"}
    assert not [file for file in holding if file.stat().st_mode & 0o077]


def test_it_is_started_once_and_its_ports_are_its_own(cluster: Running) -> None:
    said: list[str] = []
    again = control.up(cluster.folder, cluster.options, said.append)
    assert said == ["The cluster runs already."] and again.is_whole
    with pytest.raises(Problem, match="other options: workers 2, not 3"):
        control.up(cluster.folder, Options(**vars(cluster.options) | {"workers": 3}), said.append)
    other = Folder(cluster.folder.path / "other")
    with pytest.raises(Problem, match=r"in use by others: master \(\d+\), ui .*metastore"):
        control.up(other, cluster.options, said.append)
    assert not other.processes.exists()
    assert control.find(cluster.folder).is_whole


# The example, over Connect.


def test_the_shop_has_the_rows_of_an_embedded_build(cluster: Running, tmp_path: Path) -> None:
    """Batches one by one on the cluster, and all at once without it: the same rows."""
    batches = build.captured(ROOT / "data")
    first, *others = batches.values()
    shops = {}
    for target in ("connect", "local"):
        shop = tmp_path / target
        for part in SHOP:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            (shop / part).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / part, shop / part)
        landing = shop / "landing"
        places = {"cdc_landing": str(landing), "cdc_truth": str(ROOT / "data" / "truth")}
        rest = [file for batch in others for file in batch]
        steps = [first, rest] if target == "connect" else [first + rest]
        for step in steps:
            build.arrive(step, landing)
            options = ["--exclude-resource-type", "unit_test"]
            options += [] if step is steps[-1] else ["--exclude", "tag:final"]
            ran = subprocess.run(
                [
                    *(sys.executable, "-c", "from dbt.cli.main import cli; cli()", "build"),
                    *("--target", target, "--threads", "4", *options),
                    *("--vars", json.dumps(places)),
                ],
                cwd=shop,
                env=os.environ
                | cluster.environment
                | {"CDC_REFERENCE_PROJECT": "1", "DBT_PROFILES_DIR": str(shop)}
                | {"CDC_WAREHOUSE": str(shop / "warehouse")},
                capture_output=True,
                text=True,
            )
            assert not ran.returncode, ran.stdout + ran.stderr
        shops[target] = shop
    assert not (shops["connect"] / "warehouse").exists()  # no Spark beside the server's
    with cluster.session() as spark:
        tables = [row.tableName for row in spark.sql("show tables in shop").collect()]
        histories = [name for name in tables if name.endswith("_history")]
        compared = [*histories, *(name.removesuffix("_history") for name in histories)]
        assert len(compared) >= 2 * 8
        for name in compared:
            here = spark.table(f"shop.{name}")
            there = spark.sql(
                f"select * from delta.`{shops['local'] / 'warehouse' / 'shop.db' / name}`"
            ).select(*here.columns)
            assert here.count() > 0 or name == "carts"
            assert here.exceptAll(there).isEmpty() and there.exceptAll(here).isEmpty(), name


def test_random_events_give_one_answer(cluster: Running) -> None:
    """The property tests of a history, on the cluster."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", PROPERTIES, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ
        | {
            "CDC_TEST_REMOTE": cluster.environment["CDC_REMOTE"],
            "CDC_TEST_TOKEN": cluster.environment["DBT_ENV_SECRET_CDC_TOKEN"],
            "SCENARIOS": "300",
        },
        capture_output=True,
        text=True,
    )
    assert not ran.returncode and "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_many_tables(cluster: Running, tmp_path: Path) -> None:
    """All tables in one build, two batches; what is measured beside it, `-s` shows."""
    with cluster.session() as spark:
        spark.sql("drop database if exists many cascade").collect()
    many = made(tmp_path / "many", TABLES, cluster)
    many.build()
    many.put()
    started = time.monotonic()
    many.build()
    print(f"{TABLES} tables over Connect: {time.monotonic() - started:.1f} s")
    is_right(many, cluster)


# What people do at the same time.


def test_two_builds_of_one_warehouse(few: Many, cluster: Running) -> None:
    """Two dbt processes, each with tables of its own."""
    other = few.folder.with_name("other")
    shutil.copytree(few.folder, other, symlinks=True, ignore=shutil.ignore_patterns("target"))
    twin = Many.__new__(Many)
    twin.__dict__.update(few.__dict__, folder=other)
    halves = [few.tables[::2], few.tables[1::2]]

    def build_half(many: Many, half: list[str]) -> str:
        return many.build("--select", *(f"+{table}" for table in half))

    for _ in range(2):
        with ThreadPoolExecutor() as pool:
            list(pool.map(build_half, (few, twin), halves))
        is_right(few, cluster)
        few.put()
        twin.batches = few.batches


def test_thrift_and_connect_share_tables(few: Many, cluster: Running) -> None:
    """What one server has built, plain dbt-spark continues on the other, and the other way."""
    few.build()
    few.put()
    few.build("--target", "thrift")
    is_right(few, cluster)
    few.put()
    few.build()
    is_right(few, cluster)
    from pyhive import hive

    with hive.connect("127.0.0.1", port=cluster.options.thrift, database="many") as connection:
        cursor = connection.cursor()
        cursor.execute("show tables")
        seen = {row[1] for row in cursor.fetchall()}
        assert {*few.tables, *(f"{table}_history" for table in few.tables)} <= seen
        cursor.execute("select id, v from t0")
        rows = {("t0", *row) for row in cursor.fetchall()}
    assert rows == {row for row in few.expected() if row[0] == "t0"}


# What breaks.


def test_a_wrong_token_is_refused_and_not_shown(few: Many, cluster: Running) -> None:
    for token, told in (("hush-hush", "refuses the token"), ("", "wants a token")):
        started = time.monotonic()
        status, said = few.dbt("build", DBT_ENV_SECRET_CDC_TOKEN=token)
        assert status and told in said and "spark.connect.authenticate.token" in said, said
        assert "hush-hush" not in said
        assert time.monotonic() - started < PATIENCE
        log = (few.folder / "logs" / "dbt.log").read_text()
        assert "hush-hush" not in log
    # A token goes over TLS, except to `localhost`.
    address = f"sc://127.0.0.1:{cluster.options.connect}"
    status, said = few.dbt("build", CDC_REMOTE=address)
    assert status and "does not speak TLS" in said, said


def test_tls_with_a_certificate_of_its_own(few: Many, cluster: Running, tmp_path: Path) -> None:
    """A proxy ends TLS, as in front of a real server."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is missing: it makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    tls.set_alpn_protocols(["h2"])
    with Cut(cluster.options.connect, tls) as proxy:
        remote = f"sc://localhost:{proxy.port}/;use_ssl=true"
        trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)}
        status, said = few.dbt("debug", CDC_REMOTE=remote, **trusted)
        assert not status and "All checks passed" in said, said
        status, said = few.dbt("debug", CDC_REMOTE=remote)
        assert status and "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in said, said


def test_a_worker_is_killed(few: Many, whole: Running) -> None:
    """The build ends right, or fails and is right the next time."""
    few.build()
    few.put()
    killed = []

    def kill(_: subprocess.Popen[str], line: str) -> None:
        if not killed and "OK snapshotted" in line:
            killed.append("worker-1")
            whole.kill("worker-1")

    status, said = few.dbt("build", watch=kill)
    assert killed, said
    if status:
        whole.until_whole()
        few.build()
    is_right(few, whole)
    whole.until_whole()
    few.put()
    few.build()
    is_right(few, whole)


def test_the_server_is_gone(few: Many, whole: Running) -> None:
    """The message says so, soon; the next build goes on from what was committed."""
    few.build()
    few.put()
    killed: list[float] = []

    def kill(_: subprocess.Popen[str], line: str) -> None:
        if not killed and "OK snapshotted" in line:
            killed.append(time.monotonic())
            whole.kill("connect")

    status, said = few.dbt("build", watch=kill)
    assert status and killed, said
    assert time.monotonic() - killed[0] < PATIENCE, said
    assert "does not answer" in said and "reconnect_seconds" in said, said
    assert "Traceback" not in said, said
    whole.until_whole()
    few.build()
    is_right(few, whole)


def test_a_server_that_starts_again_in_time(few: Many, whole: Running) -> None:
    """Statements of its old sessions fail, and say why; later nodes have new sessions."""
    few.build()
    few.put()
    restarted: list[threading.Thread] = []

    def restart(_: subprocess.Popen[str], line: str) -> None:
        if not restarted and "OK snapshotted" in line:
            whole.kill("connect")
            restarted.append(threading.Thread(target=whole.until_whole))
            restarted[0].start()

    status, said = few.dbt("build", watch=restart)
    restarted[0].join()
    if status:
        assert "does not know this session" in said or "does not answer" in said, said
        few.build()
    is_right(few, whole)


def test_a_channel_that_breaks(few: Many, cluster: Running) -> None:
    """A build goes on where the network was gone for a moment."""
    few.build()
    few.put()
    with Cut(cluster.options.connect) as cut:
        remote = f"sc://localhost:{cut.port}"
        breaks = []

        def break_it(_: subprocess.Popen[str], line: str) -> None:
            if "OK " in line and len(breaks) < 3:
                breaks.append(cut.break_all())

        status, said = few.dbt("build", watch=break_it, CDC_REMOTE=remote)
    assert sum(breaks) > 0, said
    assert not status, said
    is_right(few, cluster)


def test_ctrl_c_ends_what_runs_on_the_server(few: Many, cluster: Running) -> None:
    (few.folder / "models" / "endless.sql").write_text(ENDLESS)
    seen: list[float] = []

    def interrupt(process: subprocess.Popen[str], line: str) -> None:
        if "START sql table model" in line and not seen:

            def act() -> None:
                end = time.monotonic() + PATIENCE
                while cluster.busy(1) < 0.15 and time.monotonic() < end:
                    pass
                seen.append(time.monotonic())
                process.send_signal(signal.SIGINT)

            threading.Thread(target=act).start()

    status, said = few.dbt("run", "--select", "endless", watch=interrupt)
    assert status and seen, said
    assert time.monotonic() - seen[0] < PATIENCE, said
    end = time.monotonic() + PATIENCE
    while (busy := cluster.busy()) > 0.08:
        assert time.monotonic() < end, f"the executors keep {busy} processors busy"
    with cluster.session() as spark:
        assert not spark.catalog.tableExists("many.endless")


class Cut:
    """Passes connections on to a port, and breaks them when it is told to."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listens.

        Args:
            port: Where the server listens.
            tls: What the proxy shows to clients; without it both sides speak plain text.
        """
        self.to, self.tls = port, tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.open: list[socket.socket] = []
        self.lock = threading.Lock()

    def __enter__(self) -> Cut:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self.break_all()

    def break_all(self) -> int:
        """Breaks all connections, and returns how many they were."""
        with self.lock:
            broken, self.open = self.open, []
        for end in broken:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        return len(broken) // 2

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        try:
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            client.close()
            return
        with self.lock:
            self.open += [client, server]
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket) -> None:
        try:
            while part := one.recv(65536):
                other.sendall(part)
        except OSError:
            pass
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
