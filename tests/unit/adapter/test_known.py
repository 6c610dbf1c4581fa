from __future__ import annotations

import pytest
from dbt.adapters.sparkcdc.tables.known import Known


def test_the_same_question_is_asked_once_until_a_statement_runs() -> None:
    known, asked = Known(), []

    def find() -> str | None:
        asked.append(1)
        return None

    assert [known.ask(("view", "v"), find) for _ in range(3)] == [None] * 3
    assert known.ask(("view", "w"), lambda: "text") == "text"
    assert len(asked) == 1
    known.forget()
    assert known.ask(("view", "w"), lambda: "another") == "another"
    known.ask(("view", "v"), find)
    assert len(asked) == 2


def test_an_answer_from_before_another_threads_statement_is_not_kept() -> None:
    known = Known()

    def find() -> str:
        known.forget()  # as when a statement ends while this thread asks
        return "before"

    assert known.ask("q", find) == "before"
    assert known.ask("q", lambda: "after") == "after"


def test_what_cannot_be_told_is_asked_again() -> None:
    known = Known()

    def fail() -> str:
        raise OSError

    for _ in range(2):
        with pytest.raises(OSError):
            known.ask("q", fail)
    assert known.ask("q", lambda: 1) == 1


def test_answers_that_are_found_at_once_hold_until_a_statement_runs() -> None:
    known = Known()
    note = known.notes()
    note(("table", "t"), "listed")
    assert known.ask(("table", "t"), lambda: "asked") == "listed"
    known.forget()
    note(("table", "t"), "listed before the statement")
    assert known.ask(("table", "t"), lambda: "asked") == "asked"
