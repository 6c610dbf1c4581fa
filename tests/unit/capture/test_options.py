"""What `cdc capture postgres` is told: options, tables and folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dbt_spark_cdc.capture.command import status_line
from dbt_spark_cdc.capture.lsn import format_lsn, microseconds, parse_lsn, time_text
from dbt_spark_cdc.capture.options import Options, Wanted, check, parse_table
from dbt_spark_cdc.cli import main


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shop.orders", ("shop", "orders")),
        ("shop.*", ("shop", "*")),
        ("Shop.Order Lines", ("Shop", "Order Lines")),
        ('"my.schema"."a ""b"""', ("my.schema", 'a "b"')),
        ("orders", None),
        ("*.*", None),
        ("a.b.c", None),
        (".b", None),
        ("", None),
    ],
)
def test_tables(text: str, expected: tuple[str, str] | None) -> None:
    assert parse_table(text) == (expected and Wanted(*expected))


@pytest.mark.parametrize(
    ("wanted", "pattern"),
    [
        (Wanted("shop", "*"), "shop.*"),
        (Wanted("my.shop", "a, b*"), r"my\.shop.a\,\ b\*"),
        (Wanted("s", "back\\slash"), r"s.back\\slash"),
    ],
)
def test_names_are_escaped_for_wal2json(wanted: Wanted, pattern: str) -> None:
    assert wanted.pattern == pattern


def test_all_problems_are_reported_at_once() -> None:
    problems = check("My-Slot", ["orders"], ["x"], "{name}", True, True)
    assert [problem.split(":")[0].split(" ")[0] for problem in problems] == [
        "--slot",
        "--table",
        "--insert-only",
        "--folder-name",
        "--snapshot",
    ]
    assert check("shop_1", ["shop.*"], [], "{schema}.{table}", True, False) == []
    assert check("s", [], [], "{table}", False, False) == [
        "--table: name at least one table, SCHEMA.TABLE or 'SCHEMA.*'."
    ]


def test_the_command_refuses_before_it_connects(tmp_path: Path) -> None:
    arguments = ["capture", "postgres", "--slot", "S", "--into", str(tmp_path / "new")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "2 problems." in done.output and "--slot 'S'" in done.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("a/b", "cannot have a slash"),
        ("_orders", "the landing model ignores the folder '_orders' of shop._orders"),
        (".orders", "the landing model ignores"),
        ("x" * 256, "over 255 bytes"),
    ],
)
def test_folders_that_cannot_be(table: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Options("", "s", (), Path()).folder("shop", table)


def test_folders() -> None:
    assert Options("", "s", (), Path()).folder("shop", "Großes Ä") == "Großes Ä"
    both = Options("", "s", (), Path(), folder_name="{schema}.{table}")
    assert both.folder("shop", "_orders") == "shop._orders"


@pytest.mark.parametrize("text", ["0/0", "0/15323E0", "1A/3C0028F0", "FFFFFFFF/FFFFFFFF"])
def test_positions(text: str) -> None:
    assert format_lsn(parse_lsn(text)) == text


@pytest.mark.parametrize("text", ["", "0", "1/2/3", "x/1", "123456789/0"])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        parse_lsn(text)


def test_times() -> None:
    assert microseconds("2000-01-01 00:00:01.5+00") == 1_500_000
    assert microseconds("2026-11-23 21:52:31.45452+00") == (
        microseconds("2026-11-23 21:52:31+00") + 454_520
    )
    assert microseconds(time_text(848_000_000_123_456)) == 848_000_000_123_456
    with pytest.raises(ValueError, match="not a time in UTC"):
        microseconds("2026-11-23 21:52:31.45452+01")


def test_the_line_of_a_report() -> None:
    told = {
        "changes": 1204,
        "batches": 9,
        "position": "1A/3C0D1F48",
        "lag_bytes": 2 << 20,
        "lag_seconds": 1.07,
        "retained_bytes": 100,
        "wal_status": "reserved",
        "unidentified": 3,
    }
    assert status_line(told) == (
        "1,204 changes in 9 batches, at 1A/3C0D1F48, 2.0 MiB of log to read, 1.1 s from commit to "
        "file, the server keeps 0.1 KiB (reserved), 3 changes without a key are lost"
    )
    idle = told | {"lag_bytes": 0, "lag_seconds": None, "retained_bytes": None, "unidentified": 0}
    assert status_line(idle) == "1,204 changes in 9 batches, at 1A/3C0D1F48, up to date"
