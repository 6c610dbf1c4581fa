"""What sqlfluff sees in place of the package's macros: some SELECT, as theirs is not in the file."""

from collections.abc import Callable


def __getattr__(macro: str) -> Callable[..., str]:
    if macro.startswith("__"):
        raise AttributeError(macro)
    return lambda *args, **kwargs: "select 1 as one"
