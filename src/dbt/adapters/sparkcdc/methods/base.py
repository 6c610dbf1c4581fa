"""What all methods that macros call have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.sparkcdc.connections import Handle, SparkCdcConnectionManager
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.settings_scope import FEW_ROWS, INTERPRETED, scoped
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _worded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has a method say in our words that the server is what failed."""

    @wraps(method)
    def run(self: BaseMethods, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except DbtRuntimeError:
            raise
        except Exception as exc:
            if ended := remote.what_ended(self.config.credentials, exc):
                raise DbtRuntimeError(ended) from exc
            raise

    return run


class BaseMethods(SparkAdapter):
    """The session of the node that runs, and its statements.

    Attributes:
        project: The project's folder.
    """

    ConnectionManager = SparkCdcConnectionManager
    connections: SparkCdcConnectionManager

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        self.project = Path(getattr(config, "project_root", None) or Path.cwd()).resolve()

    def __init_subclass__(cls, **options: Any) -> None:
        # What macros ask of a session is no statement whose errors dbt would handle.
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if getattr(method, "_is_available_", False):
                setattr(cls, name, _worded(method))

    @property
    def _handle(self) -> Handle:
        handle: Handle = self.connections.get_thread_connection().handle
        return handle

    @property
    def _spark(self) -> SparkSession:
        return self._handle.spark

    @property
    def _target_path(self) -> Path:
        return self.project / (getattr(self.config, "target_path", None) or "target")

    def _settings_of(self, interpreted: bool) -> dict[str, str]:
        """The settings of a statement that Spark may interpret, as the profile wants them."""
        if not interpreted:
            return {}
        return INTERPRETED if self.config.credentials.interpret_small else FEW_ROWS

    @contextmanager
    def _running(self, sql: str, settings: Mapping[str, str]) -> Iterator[Cursor]:
        """Runs a statement under some settings, which hold in the block as well."""
        with (
            self.connections.timed(sql),
            self.connections.exception_handler(sql),
            scoped(self._spark, settings),
        ):
            _, cursor = self.connections.add_query(sql, auto_begin=False)
            yield cursor
