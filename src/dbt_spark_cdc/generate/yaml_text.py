"""YAML as people write it: block style outside, one line for what is small."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][\w .()/*+<>-]*(?<! )")
# Words that YAML reads as truth or nothing.
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def inline(value: Any) -> str:
    """Returns a value on one line.

    Args:
        value: Text, number, truth, None, or lists and dicts of them.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline(k)}: {inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
