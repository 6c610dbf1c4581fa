"""Runs dbt Python models inside dbt's own process and Spark session."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from dbt.adapters.sparkcdc.errors import message_of
from dbt.adapters.sparkcdc.nodes.steps import of_plan, with_all_buffers
from dbt.adapters.sparkcdc.session.remote import is_remote
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_model(
    spark: SparkSession, model: Mapping[str, Any], compiled_code: str, project: Path
) -> list[str]:
    """Runs a compiled Python model; its last line hands the result to `dbt_write` or `dbt_show`.

    Args:
        spark: Session that the model reads and writes with; also its global `spark`.
        model: The model as dbt knows it.
        compiled_code: The model's code, dbt's helpers and the call that takes the result.
        project: Root folder of the dbt project.

    Returns:
        The temporary views that show the result to later statements of the session.

    Raises:
        DbtRuntimeError: The model failed; the message has the user's file, line and source.
    """
    file = source_file(model, project)
    shown: list[str] = []

    def dbt_write(result: Any, view: str, statement: str) -> None:
        frame = as_frame(spark, result)
        frame.createOrReplaceTempView(view)
        # pandas on Spark, for one, has frames in a session that is not ours.
        frame.sparkSession.sql(statement)
        frame.sparkSession.catalog.dropTempView(view)

    def dbt_show(result: Any, view: str) -> None:
        # Computed once: what reads it may read it twice, and must find the same.
        kept = as_frame(spark, result).localCheckpoint()
        as_frame_of(spark, kept).createOrReplaceTempView(view)
        shown.append(view)

    scope = {
        "__name__": "__dbt_model__",
        "spark": spark,
        "dbt_write": dbt_write,
        "dbt_show": dbt_show,
    }
    try:
        exec(compile_model(compiled_code, model["raw_code"], file), scope)
    except Exception as exc:
        raise DbtRuntimeError(explain(exc, file, project)) from exc
    return shown


def compile_model(compiled_code: str, raw_code: str, file: Path) -> CodeType:
    """Compiles so that line numbers are those of the user's file.

    The lines are moved in the text and not in a tree: `ast.parse` of Python 3.11 may fail with "AST
    constructor recursion depth mismatch" where threads parse at the same time
    (https://github.com/python/cpython/issues/106905).

    Args:
        compiled_code: Everything to run; the user's code comes first, after blank lines.
        raw_code: The user's code as dbt read it, without blank lines around it.
        file: The user's file.
    """
    before, found, after = compiled_code.partition(raw_code)
    if found and not before.strip():
        compiled_code = "\n" * _leading_lines(file, raw_code) + raw_code + after
    # Not with this module's own `from __future__ import annotations`.
    return compile(compiled_code, str(file), "exec", dont_inherit=True)


def as_frame(spark: SparkSession, result: Any) -> DataFrame:
    """Returns what a model returned as a Spark DataFrame.

    Args:
        spark: The model's session.
        result: A DataFrame of Spark, pandas or pandas on Spark.

    Raises:
        TypeError: It is something else.
    """
    if hasattr(result, "createOrReplaceTempView"):
        return result
    if hasattr(result, "to_spark"):
        return result.to_spark()
    module = type(result).__module__.partition(".")[0]
    if module == "pandas" and type(result).__name__ == "DataFrame":
        return spark.createDataFrame(result)
    raise TypeError(
        f"model() returned {type(result).__name__}: it must return a DataFrame of Spark or pandas"
    )


def as_frame_of(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Returns computed rows as a frame of a session, whose statements see its views.

    Args:
        spark: The session.
        frame: The rows. pandas on Spark, for one, has frames in a session that is not the model's.
    """
    if frame.sparkSession is spark:
        return frame
    if is_remote(spark):
        return spark.createDataFrame(with_all_buffers(frame.toArrow()), frame.schema)
    return of_plan(spark, frame)


def source_file(model: Mapping[str, Any], project: Path) -> Path:
    """Returns the file that a model was read from.

    Args:
        model: The model as dbt knows it.
        project: Root folder of the dbt project; packages are looked for below it.
    """
    path = Path(model["original_file_path"])
    installed = project / "dbt_packages" / str(model.get("package_name")) / path
    return installed if installed.is_file() else project / path


def explain(exc: BaseException, file: Path, project: Path) -> str:
    """Returns an error with the user's own lines that led to it.

    Args:
        exc: What the model raised.
        file: The model's file.
        project: Root folder; frames of its other files are shown as well.
    """
    lines = []
    for frame in traceback.extract_tb(exc.__traceback__):
        path = Path(frame.filename)
        if path != file and (project not in path.parents or "site-packages" in path.parts):
            continue
        source = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if not source:  # beyond the user's lines: the code that dbt appended
            continue
        shown = path.relative_to(project) if project in path.parents else path
        lines.append(f"{shown}, line {frame.lineno}, in {frame.name}\n    {source}")
    name = type(exc).__name__
    return "\n".join([*lines, f"{name}: {message_of(exc)}"])


def _leading_lines(file: Path, raw_code: str) -> int:
    """Blank lines before the user's code, which dbt takes off."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return 0
    return text[: max(text.find(raw_code), 0)].count("\n")
