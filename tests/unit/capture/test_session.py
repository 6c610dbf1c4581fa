"""How a stream becomes files: boundaries, rotation, what is skipped and what is confirmed."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("psycopg")

from dbt_spark_cdc.capture import postgres, server
from dbt_spark_cdc.capture.folder import CaptureFolder, State
from dbt_spark_cdc.capture.lsn import format_lsn
from dbt_spark_cdc.capture.options import Options, Wanted
from dbt_spark_cdc.capture.postgres import Capture, Session, Stopped
from dbt_spark_cdc.capture.problems import Misconfigured, Unavailable
from dbt_spark_cdc.capture.stream import Message

TIME = "2026-11-23 21:52:31.45452+00"


def data(text: str) -> Message:
    return Message(text.encode(), 0, 0, False)


def begin(end: int) -> Message:
    return data(f'{{"action":"B","xid":1,"timestamp":"{TIME}","nextlsn":"{format_lsn(end)}"}}')


def commit(end: int) -> Message:
    return data(f'{{"action":"C","xid":1,"timestamp":"{TIME}","nextlsn":"{format_lsn(end)}"}}')


def change(table: str, number: int, schema: str = "shop") -> Message:
    place = f'"schema":{json.dumps(schema)},"table":{json.dumps(table)}'
    return data(
        f'{{"action":"I","xid":1,"timestamp":"{TIME}","lsn":"0/{number:X}",{place},"columns":[]}}'
    )


def transaction(end: int, *tables: str) -> list[Message]:
    return [begin(end), *(change(table, end) for table in tables), commit(end)]


def alive(position: int, wants_reply: bool = False) -> Message:
    return Message(None, position, 0, wants_reply)


class Stream:
    """Gives listed messages, and then says that the connection is lost."""

    def __init__(self, messages: list[Message | None]) -> None:
        self.messages = messages
        self.warnings: list[str] = []
        self.confirmed: list[int] = []
        self.started: int | None = None

    def start(self, position: int, plugin_options: dict[str, str]) -> None:
        self.started = position

    def receive(self, seconds: float) -> Message | None:
        if not self.messages:
            raise Unavailable("lost")
        return self.messages.pop(0)

    def confirm(self, received: int, durable: int, wants_reply: bool = False) -> None:
        assert durable <= received
        self.confirmed.append(durable)


class Run:
    """A session over a stream."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.told: list[str] = []
        self.healthy = 0
        self.stops: Callable[[], bool] = lambda: False
        monkeypatch.setattr(server, "server_position", lambda _: 1000)
        monkeypatch.setattr(server, "read_slot", lambda *_: None)
        monkeypatch.setattr(postgres, "_codec", lambda _: None)

    def __call__(self, *messages: Message | None, ends: type = Unavailable, **named: Any) -> Stream:
        options = Options(
            **{"dsn": "", "slot": "s", "tables": (Wanted("shop", "*"),), "into": self.path}
            | {"flush_seconds": 0.0, "status_seconds": 1000.0}
            | named
        )
        self.capture = Capture(
            options, self.told.append, lambda _: None, lambda _: self.stops(), {}
        )
        folder = CaptureFolder(self.path)
        state, _ = folder.recover()
        stream = Stream(list(messages))
        session = Session(
            self.capture,
            folder,
            state or State("s", "7", "app", (), 10),
            SimpleNamespace(),  # type: ignore[arg-type]
            stream,  # type: ignore[arg-type]
            self.is_healthy,
        )
        if ends is type(None):
            session.run()
        else:
            with pytest.raises(ends):
                session.run()
        return stream

    def is_healthy(self) -> None:
        self.healthy += 1

    def files(self) -> dict[str, int]:
        return {
            str(path.relative_to(self.path)): len(path.read_bytes().splitlines())
            for path in sorted(self.path.glob("[!_]*/[!_]*"))
        }

    def position(self) -> int | None:
        state = CaptureFolder(self.path).state()
        return state.position if state else None


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_each_transaction_is_landed_and_then_confirmed(run: Run) -> None:
    stream = run(*transaction(20, "a", "b"), *transaction(30, "a"))
    assert stream.started == 10
    assert run.files() == {
        "a/000000000000000A-0000000000000014-0001.jsonl": 1,
        "a/0000000000000014-000000000000001E-0001.jsonl": 1,
        "b/000000000000000A-0000000000000014-0001.jsonl": 1,
    }
    assert stream.confirmed[-2:] == [20, 30] and run.position() == 30


def test_a_transaction_that_is_cut_off_is_not_landed_in_part(run: Run) -> None:
    run(*transaction(20, "a"), begin(30), change("a", 30))
    assert run.position() == 20 and list(run.files().values()) == [1]
    stream = run(*transaction(20, "a"), *transaction(30, "a", "a"))  # sent again from the start
    assert stream.started == 20
    assert list(run.files().values()) == [1, 2] and run.capture.counters.transactions == 1


def test_files_wait_for_time_or_size(run: Run) -> None:
    run(*transaction(20, "a"), *transaction(30, "a"), flush_seconds=60.0)
    assert run.files() == {} and run.position() is None
    size = len(change("a", 20).payload or b"") + 1
    run(
        *transaction(20, "a"),
        *transaction(30, "a"),
        *transaction(40, "a"),
        flush_seconds=60.0,
        file_bytes=2 * size,
    )
    assert list(run.files().values()) == [2] and run.position() == 30


def test_a_stop_lands_what_is_complete_and_drops_what_is_not(run: Run) -> None:
    run.stops = lambda: True
    run(*transaction(20, "a"), ends=Stopped)
    assert run.position() is None  # asked before anything came
    answers = iter([False, True])
    run.stops = lambda: next(answers)
    postgres_poll, postgres.POLL_SECONDS = postgres.POLL_SECONDS, 0.0
    try:
        run(*transaction(20, "a")[:1], change("a", 20), ends=Stopped, flush_seconds=60.0)
    finally:
        postgres.POLL_SECONDS = postgres_poll
    assert run.files() == {} and run.position() is None


def test_signs_of_life_move_the_position_between_transactions_only(run: Run) -> None:
    stream = run(alive(25), begin(30), alive(28, wants_reply=True), status_seconds=0.0)
    assert run.position() == 25 and max(stream.confirmed) == 25 and run.files() == {}


def test_once_ends_at_the_position_of_its_start(run: Run) -> None:
    run(*transaction(20, "a"), None, alive(1000), once=True, ends=type(None), flush_seconds=60.0)
    assert run.position() == 1000 and list(run.files().values()) == [1]


def test_what_is_no_change_of_a_row_is_not_landed(run: Run) -> None:
    message = data('{"action":"M","transactional":false,"prefix":"p","content":"x"}')
    run(message, begin(20), message, change("a", 20), commit(20))
    assert list(run.files().values()) == [1]


def test_fields_in_another_order_and_odd_names_are_read(run: Run) -> None:
    other = data('{"table":"ä","schema":"shop","action":"U","xid":1}')
    run(begin(20), other, change('Ä "quoted"', 20), commit(20))
    assert {name.split("/")[0] for name in run.files()} == {"ä", 'Ä "quoted"'}


def test_a_table_that_comes_up_in_the_folder_of_another_ends_the_capture(run: Run) -> None:
    run(begin(20), change("a", 20), change("a", 20, "other"), commit(20), ends=Misconfigured)
    assert run.files() == {} and run.position() is None


def test_a_change_that_wal2json_cannot_print_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = 'no tuple identifier for UPDATE in table "shop"."a"'
    real = Stream.receive

    def receive(self: Stream, seconds: float) -> Message | None:
        if len(self.messages) == 1:
            self.warnings.append(warned)
        return real(self, seconds)

    monkeypatch.setattr(Stream, "receive", receive)
    run(*transaction(20, "a"))
    [told] = run.told
    assert warned in told and "the change is in no file" in told
    assert run.capture.counters.unidentified == 1


def test_a_report_that_cannot_be_printed_does_not_stop_the_capture(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(
        Capture, "report", property(lambda _: report, lambda *_: None), raising=False
    )
    run(*transaction(20, "a"), *transaction(30, "a"), status_seconds=0.0)
    assert run.position() == 30
    [told] = run.told
    assert "Broken pipe" in told


def test_a_session_of_an_idle_server_is_healthy(run: Run) -> None:
    run(None, None, alive(10), status_seconds=0.0, flush_seconds=0.0)
    assert run.healthy and run.position() is None
    run.healthy = 0
    run(None, begin(20), change("a", 20), status_seconds=0.0, flush_seconds=60.0)
    assert not run.healthy  # too early to tell
