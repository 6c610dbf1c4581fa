"""Progress of dbt: lines where nobody watches, a bar where somebody does."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from dbt_spark_cdc.progress import Progress


def event(event_name: str, **data: Any) -> Any:
    return SimpleNamespace(info=SimpleNamespace(name=event_name), data=SimpleNamespace(**data))


def info(name: str, kind: str = "model", status: str = "success") -> Any:
    return SimpleNamespace(
        unique_id=f"{kind}.p.{name}", node_name=name, resource_type=kind, node_status=status
    )


def finished(name: str, kind: str = "model", status: str = "success") -> Any:
    result = SimpleNamespace(execution_time=1.25)
    return event("NodeFinished", node_info=info(name, kind, status), run_result=result)


def started(name: str, total: int) -> list[Any]:
    return [
        event("LogStartLine", index=1, total=total),
        event("NodeStart", node_info=info(name)),
    ]


def shown(*events: Any, terminal: bool = False, wait: float = 0, silence: float = 60) -> str:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=terminal)
    with Progress(console, "batch 1/4", silence) as progress:
        for one in events:
            progress.listen(one)
        time.sleep(wait)
    return out.getvalue()


def test_each_finished_model_is_a_line() -> None:
    lines = shown(*started("a[b]", 47), finished("a[b]"), finished("h", "snapshot", "error"))
    assert lines.splitlines() == [
        "batch 1/4  dbt reads the project, Spark starts",
        "batch 1/4  1/47  model a[b]  success  1.2 s",
        "batch 1/4  2/47  snapshot h  error  1.2 s",
    ]


def test_of_tests_those_that_fail_are_lines() -> None:
    lines = shown(
        finished("t", "test", "pass"),
        finished("e", "exposure", "no-op"),
        finished("u", "unit_test", "fail"),
    )
    assert lines.splitlines()[1:] == ["batch 1/4  3/?  unit test u  fail  1.2 s"]


def test_silence_is_broken_by_what_is_running() -> None:
    lines = shown(*started("slow", 3), wait=0.4, silence=0.1).splitlines()
    assert lines[1] == "batch 1/4  0/3  running: slow (0 s)"
    assert len(lines) < 6
    assert "batch 1/4  dbt and Spark are still starting\n" in shown(wait=0.3, silence=0.1)
    between = shown(*started("a", 3), finished("a"), wait=0.3, silence=0.1)
    assert "batch 1/4  1/3  between two nodes\n" in between


def test_a_terminal_gets_a_bar_and_no_lines() -> None:
    out = shown(*started("slow", 3), *started("next", 3), finished("slow"), terminal=True, wait=0.3)
    assert "1/3" in out
    assert "next" in out
    assert "model slow" not in out


def test_other_events_are_ignored() -> None:
    assert len(shown(event("MainReportVersion")).splitlines()) == 1
