"""What the catalog and the logs of tables have said since the last statement."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

Value = TypeVar("Value")


class Known:
    """Answers that hold until a statement runs, in whatever thread.

    Nodes of a build ask the same again: of a table's last commit the table itself, who reads it and
    the view between them. A build that finds nothing new runs no statement at all.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, object] = {}

    def ask(self, question: Hashable, find: Callable[[], Value]) -> Value:
        """Returns the answer to a question.

        Args:
            question: What is asked: the same question has the same answer.
            find: Finds the answer.
        """
        answers = self._answers
        if question not in answers:
            # Where a statement of another thread ends meanwhile, nobody looks there any more.
            answers[question] = find()
        return answers[question]  # type: ignore[return-value]

    def notes(self) -> Callable[[Hashable, object], None]:
        """Returns what notes answers, of which several are found at once, until the next statement.

        It is to be asked for before they are found: what is noted after a statement counts no more.
        """
        return self._answers.__setitem__

    def forget(self) -> None:
        """Lets go of all answers: to be called after everything that may change one."""
        self._answers = {}
