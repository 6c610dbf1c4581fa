"""What sqlfluff sees in place of the package's macros: some SELECT, as theirs is elsewhere."""

import sys
from collections.abc import Callable
from types import ModuleType


class Macros(ModuleType):
    """Has every macro; as items, since Jinja's sandbox hides attributes that are private."""

    def __getitem__(self, macro: str) -> Callable[..., str]:
        return lambda *args, **kwargs: "select 1 as one"


sys.modules[__name__].__class__ = Macros
