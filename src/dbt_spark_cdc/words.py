"""The words of a declaration, as docs/declaration.md has them, and the shape of names and types."""

from __future__ import annotations

import re

FORMATS = (
    "change_event",
    "flagged",
    "debezium",
    "wal2json_v1",
    "wal2json_v2",
    "dms",
    "goldengate",
    "maxwell",
    "canal",
    "delta_cdf",
)
ON_BAD_EVENT = ("quarantine", "fail")

# Names that end up in file names, model names and Jinja: dbt's own rule.
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Characters that Delta refuses in the name of a column.
NOT_IN_COLUMN = re.compile(r"[ ,;{}()\n\t=`]")
NO_COLUMN = "Delta or the package does not take the name"
TAG = re.compile(r"[\w.:/-]+")

# As the macro _is_reserved has them.
_RESERVED = {
    "_op",
    "_metadata",
    "_seq",
    "_seq_end",
    "_ts",
    "_event_id",
    "_unset",
    "_arrived",
    "_row_id",
    "_events",
    "dbt_scd_id",
    "dbt_updated_at",
    "dbt_valid_from",
    "dbt_valid_to",
    "dbt_change_type",
    "_entity_id",
    "_ended_entity_id",
    "_former_entity_ids",
    "_segment_id",
    "_left_segment_id",
    "_ended_segment_id",
    "_resolved",
    "_is_new",
    "_is_move",
    "_is_truncate",
    "_truncate",
    "_is_end",
    "_is_repeated",
    "_is_late",
    "_is_tied",
    "_ordinal",
    "_is_birth",
    "_is_close",
    "_created",
    "_is_image",
    "_is_first",
    "_is_start",
    "_is_change",
    "_version",
    "_positions",
    "_values",
    "_change",
    "_close",
    "_from",
    "_first_event_id",
    "_effects",
    "_image",
    "_event",
    "_reason",
    "_payload",
    "_origin",
    "_row_kind",
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
    "_newest",
    "_latest",
    "_age",
    "_end",
    "_truncated",
    "_state",
    "_is_known",
    "_is_in_order",
    "_current_op",
    "_first_new",
    "_was_open",
    "_was_latest",
    "_remembered",
    "_of_known",
    "_of_given",
    "_given_event_id",
    "_new_events",
    "_may_be_dropped",
    "_last",
    "_kept",
    "_is_visible",
    "_is_open",
    "_is_living",
    "_is_end_of_state",
    "_is_dropped",
    "_first_id",
    "_dropped_created",
    "_births",
    "_all_effects",
}
_TYPE = re.compile(
    r"boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|date"
    r"|timestamp(_ltz|_ntz)?|string|binary|(decimal|dec|numeric)(\(\s*\d+\s*(,\s*\d+\s*)?\))?"
    r"|(var)?char\(\s*\d+\s*\)|(array|struct)<.+>",
    re.IGNORECASE,
)
_OPENING, _CLOSING, _QUOTES = "(<[{", ")>]}", "'\"`"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, which has an s in the plural.

    Args:
        number: How many.
        noun: What, in the singular.
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def quoted(name: str) -> str:
    """Returns a name as a quoted identifier of Spark SQL.

    Args:
        name: The name of a column or a field.
    """
    return "`" + name.replace("`", "``") + "`"


def quoted_if_needed(name: str) -> str:
    """Returns a name as an identifier of Spark SQL, quoted only where it cannot stand as it is.

    Args:
        name: The name of a column or a field.
    """
    return name if is_identifier(name) else quoted(name)


def is_identifier(name: str) -> bool:
    """Whether a name can stand in file names, model names and SQL as it is.

    Args:
        name: The name.
    """
    return IDENTIFIER.fullmatch(name) is not None


def can_be_column(name: str) -> bool:
    """Returns whether Delta and the package take a name for a declared column.

    Args:
        name: A column's name.
    """
    return not (is_reserved(name) or NOT_IN_COLUMN.search(name))


def is_reserved(column: str) -> bool:
    """Whether a column has a name that the package uses itself.

    Args:
        column: Its name.
    """
    lowered = column.lower()
    return lowered in _RESERVED or lowered.startswith(("_old_", "_cdc_", "__cdc_"))


def is_type(text: str) -> bool:
    """Whether a text names a Spark SQL type that a declared column can have.

    Args:
        text: The text.
    """
    return _TYPE.fullmatch(text.strip()) is not None


def split_list(text: str) -> list[str]:
    """Splits names that are parted by commas, semicolons or blanks.

    Args:
        text: For instance `order_id, line_no`.
    """
    return [part for part in re.split(r"[\s,;]+", text) if part]


def split_top_level(text: str) -> list[str]:
    """Splits SQL at the commas that stand outside of brackets and quotes.

    Args:
        text: For instance `id bigint, price decimal(12,2)`.
    """
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        if char == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
