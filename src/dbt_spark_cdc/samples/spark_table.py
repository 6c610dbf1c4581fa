"""The first rows of a table, through the profile's own Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dbt_common.exceptions import DbtBaseException

from dbt_spark_cdc.project import BadProject, load_credentials
from dbt_spark_cdc.samples.records import Sample, Unreadable, unfolded

if TYPE_CHECKING:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials


def read_table(
    name: str, project: Path, profiles: Path | None, target: str | None, limit: int
) -> Sample:
    """Reads the first rows of a table.

    Args:
        name: Table, with its schema.
        project: Folder of the dbt project.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.
        limit: How many rows to read at most.

    Raises:
        Unreadable: There is no such table, or no Spark to ask.
    """
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

    try:
        credentials = load_credentials(project, profiles, target)
    except BadProject as exc:
        raise Unreadable(str(exc)) from exc
    if not isinstance(credentials, SparkCdcCredentials):
        raise Unreadable(
            f"The profile is of type {credentials.type}. A table is read through type sparkcdc: "
            "add such a target and name it with --target, or name a file."
        )
    credentials.anchor(project)
    return first_rows(name, credentials, limit)


def first_rows(name: str, credentials: SparkCdcCredentials, limit: int) -> Sample:
    """Reads the first rows of a table through a Spark of this process, or a Connect server.

    Args:
        name: Table, with its schema.
        credentials: Where Spark is, with absolute paths.
        limit: How many rows to read at most.

    Raises:
        Unreadable: There is no such table, or Spark does not start.
    """
    from dbt.adapters.sparkcdc.errors import message_of
    from dbt.adapters.sparkcdc.session.opening import close_session, open_session

    try:
        session = open_session(credentials)
        try:
            rows = session.table(name).limit(limit)
            types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
            records = [row.asDict(recursive=True) for row in rows.collect()]
        except Exception as exc:
            raise Unreadable(
                f"{name} cannot be read: {message_of(exc)}\nName a table of the warehouse "
                f"{credentials.warehouse} as SCHEMA.TABLE."
            ) from exc
        finally:
            close_session(session)
    except DbtBaseException as exc:
        raise Unreadable(str(exc).strip()) from exc
    if not records:
        raise Unreadable(f"{name} is empty. Name a table that holds events.")
    return unfolded(Sample(name, "table", records, types))
