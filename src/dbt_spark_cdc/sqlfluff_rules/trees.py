"""What the rules ask of sqlfluff's syntax trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlfluff.core.parser import BaseSegment

# Words of an ORDER BY that are no part of an ordering expression.
_DIRECTION = {"ORDER", "SORT", "BY", "ASC", "DESC", "NULLS", "FIRST", "LAST"}
_JOINING = ("AND", "OR")


def code(segment: BaseSegment) -> list[BaseSegment]:
    """The children of a segment that are neither blanks nor comments.

    Args:
        segment: Any part of a tree.
    """
    return [child for child in segment.segments if child.is_code]


def within(segments: Iterable[BaseSegment], *types: str) -> Iterator[BaseSegment]:
    """All segments of these types in some segments, these themselves included.

    Args:
        segments: Where to look.
        *types: What to look for, as sqlfluff names it.
    """
    for segment in segments:
        yield from segment.recursive_crawl(*types)


def function_name(function: BaseSegment) -> str:
    """The name of a called function, in lower case and without its schema.

    Args:
        function: A segment of the type `function`.
    """
    name = function.get_child("function_name")
    return name.raw.lower().rpartition(".")[2].strip("`\"'") if name else ""


def arguments(function: BaseSegment) -> list[list[BaseSegment]]:
    """The arguments of a called function, each as its segments; keywords such as DISTINCT too.

    Args:
        function: A segment of the type `function`.
    """
    brackets = next(within([function], "bracketed"), None)
    return split(code(brackets)[1:-1], ",") if brackets else []


def split(segments: Iterable[BaseSegment], *between: str) -> list[list[BaseSegment]]:
    """Segments in groups, as some words or signs divide them; no group is empty.

    Args:
        segments: Siblings without blanks.
        *between: What divides them, in upper case.
    """
    groups: list[list[BaseSegment]] = [[]]
    for segment in segments:
        if segment.raw_upper in between:
            groups.append([])
        else:
            groups[-1].append(segment)
    return [group for group in groups if group]


def column_name(reference: BaseSegment) -> str:
    """The last part of a name, in snake case and without quotes.

    Args:
        reference: The name of a column, table or alias.
    """
    name = reference.raw.rpartition(".")[2].strip('`"[] ')
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def columns(segments: Iterable[BaseSegment]) -> list[str]:
    """The names of all columns that are referenced in some segments.

    Args:
        segments: Where to look.
    """
    return [column_name(reference) for reference in within(segments, "column_reference")]


def core(segments: list[BaseSegment]) -> list[BaseSegment]:
    """The parts of an expression, without brackets and wrappers around all of it.

    Args:
        segments: The segments of one expression.
    """
    while len(segments) == 1 and segments[0].is_type("expression", "bracketed"):
        inner = code(segments[0])
        segments = inner[1:-1] if segments[0].is_type("bracketed") else inner
    return segments


@dataclass(frozen=True)
class Window:
    """A window: what it is divided by, and its ordering expressions."""

    keys: list[str]
    order: list[list[BaseSegment]]
    is_divided: bool

    def deciding(self) -> list[list[BaseSegment]]:
        """The ordering expressions that can differ between two rows of one key.

        Literals, functions without columns and the keys themselves cannot, or not for a reason.
        """
        named = [(term, set(columns(term))) for term in self.order]
        return [term for term, names in named if names and not names <= set(self.keys)]


def window(function: BaseSegment, root: BaseSegment) -> Window | None:
    """The window of a function, also where a WINDOW clause names it; None if it has no OVER.

    Args:
        function: A segment of the type `function`.
        root: The file.
    """
    over = function.get_child("over_clause")
    if over is None:
        return None
    specification: BaseSegment | None = next(within([over], "window_specification"), None)
    if specification is None or not specification.segments:
        names = [child.raw.lower() for child in within([over], "naked_identifier")]
        named = (
            expression
            for expression in within([root], "named_window_expression")
            if names and code(expression)[0].raw.lower() == names[0]
        )
        specification = next(within(named, "window_specification"), None)
    if specification is None:
        return Window([], [], False)
    divided = specification.get_child("partitionby_clause")
    ordered = specification.get_child("orderby_clause", "sortby_clause")
    ordering = (
        child
        for child in (code(ordered) if ordered else [])
        if not (child.is_type("keyword") and child.raw_upper in _DIRECTION)
    )
    terms = split(ordering, ",")
    return Window(columns([divided]) if divided else [], terms, divided is not None)


def picks(function: BaseSegment) -> bool:
    """Whether an aggregate function picks a row of its group by an order: max_by and min_by.

    Args:
        function: A segment of the type `function`.
    """
    return function_name(function) in ("max_by", "min_by") and len(arguments(function)) > 1


@dataclass(frozen=True)
class Comparison:
    """A condition that compares two things."""

    left: list[BaseSegment]
    operator: str
    right: list[BaseSegment]

    @property
    def segments(self) -> list[BaseSegment]:
        """Both sides."""
        return [*self.left, *self.right]

    @property
    def is_one(self) -> bool:
        """Whether it asks for the first: `= 1`, `<= 1` or `< 2`."""
        number = "".join(segment.raw for segment in core(self.right))
        return (self.operator, number) in (("=", "1"), ("<=", "1"), ("<", "2"), ("==", "1"))


def comparisons(segments: Iterable[BaseSegment]) -> Iterator[Comparison]:
    """All comparisons in some segments, nested ones too.

    Args:
        segments: Where to look.
    """
    for expression in within(segments, "expression"):
        for condition in split(code(expression), *_JOINING):
            places = [i for i, part in enumerate(condition) if part.is_type("comparison_operator")]
            if len(places) == 1 and condition[: places[0]] and condition[places[0] + 1 :]:
                operator = condition[places[0]].raw.replace(" ", "")
                yield Comparison(condition[: places[0]], operator, condition[places[0] + 1 :])


def enclosing(stack: Iterable[BaseSegment], kind: str) -> BaseSegment | None:
    """The innermost segment of a kind around another one; None if there is none.

    Args:
        stack: The segments around it, from the file inwards.
        kind: A type of sqlfluff.
    """
    found = None
    for segment in stack:
        if segment.is_type(kind):
            found = segment
    return found
