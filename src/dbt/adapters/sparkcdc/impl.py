"""The adapter: dbt-spark's, with sessions, Python models and exact seeds."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from threading import RLock
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.impl import log_code_execution
from dbt.adapters.base.meta import available
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.spark.impl import SparkConfig
from dbt.adapters.sparkcdc.methods.erasure import ErasureMethods
from dbt.adapters.sparkcdc.methods.iceberg import IcebergMethods
from dbt.adapters.sparkcdc.methods.landed_files import LandedFileMethods
from dbt.adapters.sparkcdc.methods.loads import LoadMethods
from dbt.adapters.sparkcdc.methods.statements import StatementMethods
from dbt.adapters.sparkcdc.methods.steps import StepMethods
from dbt.adapters.sparkcdc.methods.writes import WriteMethods
from dbt.adapters.sparkcdc.nodes.python_model import run_model
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.session.opening import warm_up
from dbt.adapters.sparkcdc.session.statement_log import FILE, StatementLog
from dbt_common.exceptions import DbtRuntimeError

from dbt_spark_cdc.words import quoted

if TYPE_CHECKING:
    import agate

# Commands that read or write tables; the others must work without Java.
RUNS_SPARK = frozenset(
    [
        "build",
        "run",
        "test",
        "seed",
        "snapshot",
        "run-operation",
        "retry",
        "show",
        "clone",
        "compile",
        "generate",
        "freshness",
    ]
)
# Those of them that run a few statements.
LOOKS_ONLY = frozenset(["show", "compile", "run-operation"])
# Those whose statements are recorded, if at all.
BUILDS = RUNS_SPARK - LOOKS_ONLY - {"generate", "freshness"}
SEED_VIEW = "__dbt_seed"
# How many more objects than before there are when Python looks for garbage; 700 by itself.
NEW_OBJECTS = 20_000


@dataclass
class SparkCdcConfig(SparkConfig):
    """Model settings beyond dbt's own."""

    tblproperties: dict[str, str] | None = None


def collect_garbage_less() -> None:
    """Has Python look for garbage less often, unless the process has a setting of its own.

    Nodes and macros of a project are several hundred thousand objects that live as long as the
    run. A build of 65 tables with nothing new spent a quarter of its time on going through them.
    """
    objects, *others = gc.get_threshold()
    if 0 < objects < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *others)


def _is_one_model(select: Sequence[str] | None) -> bool:
    """Whether `--select` names one model and nothing around it."""
    return len(select or []) == 1 and str(select[0]).replace("_", "").isalnum()  # type: ignore[index]


class SparkCdcAdapter(
    StepMethods,
    LoadMethods,
    WriteMethods,
    StatementMethods,
    IcebergMethods,
    ErasureMethods,
    LandedFileMethods,
):
    """Child of dbt-spark's adapter; only what a Spark of dbt's own makes different."""

    AdapterSpecificConfigs = SparkCdcConfig

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        collect_garbage_less()
        super().__init__(config, mp_context)
        self.asking = RLock()
        self.answers: dict[str, Any] = {}
        config.credentials.anchor(self.project)
        args = getattr(config, "args", None)
        command = getattr(args, "which", None)
        if command in BUILDS and config.credentials.log_statements:
            self.connections.statement_log = StatementLog(self._target_path / FILE)
        if command in RUNS_SPARK:
            brief = config.credentials.quick_start
            if brief is None:
                brief = command in LOOKS_ONLY or _is_one_model(getattr(args, "select", None))
            warm_up(config.credentials, record=command == "build" and not brief, brief=brief)

    @log_code_execution
    def submit_python_job(
        self, parsed_model: dict[str, Any], compiled_code: str
    ) -> AdapterResponse:
        """Runs a Python model in this thread, in the session of its connection.

        Args:
            parsed_model: The model as dbt knows it.
            compiled_code: What to run.

        Raises:
            DbtRuntimeError: The model failed, or the server that runs it is gone.
        """
        handle = self._handle
        handle.columns.clear()
        try:
            handle.steps += run_model(handle.spark, parsed_model, compiled_code, self.project)
        except DbtRuntimeError as exc:
            if ended := remote.what_ended(self.config.credentials, exc):
                raise DbtRuntimeError(ended) from exc
            raise
        finally:
            self.connections.known.forget()
        return AdapterResponse(_message="OK")

    @available
    def is_embedded(self) -> bool:
        """Returns whether Spark runs inside dbt's process, and not on a server."""
        return not self.config.credentials.remote

    @available.parse_none
    def make_seed_view(self, agate_table: agate.Table) -> str:
        """Shows a seed's rows to SQL as a temp view of texts, exactly as dbt read them.

        Args:
            agate_table: The seed.

        Returns:
            Name of the view.
        """
        schema = ", ".join(f"{quoted(name)} string" for name in agate_table.column_names)
        rows = [tuple(None if v is None else str(v) for v in row) for row in agate_table.rows]
        self._spark.createDataFrame(rows, schema).createOrReplaceTempView(SEED_VIEW)
        return SEED_VIEW

    @available.parse_none
    def project_graph(self) -> dict[str, Any]:
        """Returns the project's nodes and sources, which dbt does not show to unit tests."""
        return getattr(self.get_macro_resolver(), "flat_graph", {})

    @available.parse_none
    def environment_length(self, variable: str) -> int | None:
        """Returns how many characters an environment variable has, and not which.

        dbt's own `env_var` would keep its value in target/.

        Args:
            variable: Its name.

        Returns:
            0 where it is not set; None where Spark runs in another environment than this one.
        """
        if self.config.credentials.remote:
            return None
        return len(os.environ.get(variable, ""))

    @available.parse_none
    def once(self, name: str, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Asks once in a run what several nodes want to know; threads wait for the first one.

        Args:
            name: What is asked; the same name is the same answer.
            ask: A macro.
            *arguments: Its arguments.

        Returns:
            What the macro returned.
        """
        # What is answered is not waited for: the first one may be running a query.
        if name not in self.answers:
            with self.asking:
                if name not in self.answers:
                    self.answers[name] = ask(*arguments)
        return self.answers[name]
