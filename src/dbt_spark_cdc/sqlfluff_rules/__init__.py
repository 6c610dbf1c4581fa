"""Rules for sqlfluff: the traps of change data capture in SQL that is written by hand.

sqlfluff finds this module through its entry point. The rules are imported only when sqlfluff asks
for them, as it wants it.
"""

from __future__ import annotations

from typing import Any

from sqlfluff.core.config import load_config_resource
from sqlfluff.core.plugin import hookimpl
from sqlfluff.core.rules import BaseRule, ConfigInfo


@hookimpl
def get_rules() -> list[type[BaseRule]]:
    """The rules, in the order of the documentation."""
    from dbt_spark_cdc.sqlfluff_rules import merging, nulls, ordering, reading

    return [
        ordering.Rule_CDC_OR01,
        ordering.Rule_CDC_OR02,
        ordering.Rule_CDC_OR03,
        reading.Rule_CDC_RD01,
        reading.Rule_CDC_RD02,
        nulls.Rule_CDC_NU01,
        merging.Rule_CDC_MG01,
        merging.Rule_CDC_MG02,
        merging.Rule_CDC_MG03,
    ]


@hookimpl
def load_default_config() -> dict[str, Any]:
    """The values that the options have where a project sets none."""
    return load_config_resource(package="dbt_spark_cdc.sqlfluff_rules", file_name="defaults.cfg")


@hookimpl
def get_configs_info() -> dict[str, ConfigInfo]:
    """What the options mean."""
    return {
        "cdc_time_columns": {
            "definition": (
                "Regular expression of the columns that hold a time. Names are compared in snake "
                "case and searched, so use ``^`` and ``$`` for a whole name"
            )
        },
        "cdc_sequence_columns": {
            "definition": (
                "Regular expression of the columns that hold a position of the source, such as an "
                "LSN or a version"
            )
        },
        "cdc_arrival_columns": {
            "definition": (
                "Regular expression of the columns that count what arrives and never go back, so "
                "that a watermark on them loses nothing"
            )
        },
        "cdc_event_tables": {
            "definition": (
                "Regular expression of the tables that hold change events, with several rows for "
                "a key"
            )
        },
        "cdc_window_functions": {
            "definition": (
                "Comma separated list of window functions that pick a row by its order. Add "
                "``lag`` and ``lead`` where they compute the end of a version"
            )
        },
    }
