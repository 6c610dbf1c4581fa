"""`cdc metrics`: the numbers of the report for Prometheus and OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dbt_spark_cdc.observe.runs import Run
from dbt_spark_cdc.observe.status import STATES, Stored, TableStatus
from dbt_spark_cdc.project import LastRun, Node, Project, instant

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource

SERVICE = "dbt-spark-cdc"
# The variables of the exporter itself, and what it takes where none is set.
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ENDPOINT_OF_METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
ENDPOINT_BY_DEFAULT = "http://localhost:4318"

# Each event that a run reads comes to one of these.
OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "duplicate", "quarantined")
# Nodes that build something.
BUILT = ("model", "snapshot", "seed")
# Prometheus spells units out and puts them last; OpenTelemetry has the symbols of UCUM.
_UNITS = {"s": "_seconds", "By": "_bytes"}


class CannotSend(Exception):
    """OpenTelemetry's packages are missing, or the endpoint did not take the numbers."""

    def __init__(self, message: str, code: int) -> None:
        """Takes what to tell.

        Args:
            message: What is wrong, and what to do.
            code: The exit code of the command.
        """
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Definition:
    """What is measured.

    Attributes:
        name: Its name in OpenTelemetry.
        unit: Its unit in OpenTelemetry.
        text: What it is, in a sentence.
        labels: What tells one series from another.
        counts: Whether it only grows.
    """

    name: str
    unit: str
    text: str
    labels: tuple[str, ...]
    counts: bool = False

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus."""
        total = "_total" if self.counts else ""
        return self.name.replace(".", "_") + _UNITS.get(self.unit, "") + total


@dataclass(frozen=True)
class Sample:
    """A measured value.

    Attributes:
        definition: What was measured.
        labels: Where, by label.
        value: The value.
        since: When counting began; None for what is not counted.
    """

    definition: Definition
    labels: Mapping[str, str]
    value: float
    since: datetime | None = None


_PROJECT = ("project", "schema")
_TABLE = (*_PROJECT, "table")
_RELATION = (*_TABLE, "relation")

STATE = Definition(
    "cdc.table.state",
    "{table}",
    "1 for the state that the table is in, 0 for the others.",
    (*_TABLE, "state"),
)
LAG = Definition("cdc.table.lag", "s", "How long the oldest unread raw row has waited.", _TABLE)
UNREAD = Definition(
    "cdc.table.unread_rows",
    "{row}",
    "Raw rows not read yet; at most so many where several tables share the raw table.",
    _TABLE,
)
UNREAD_VERSIONS = Definition(
    "cdc.table.unread_versions",
    "{version}",
    "Versions of the history that the final table has not read.",
    _TABLE,
)
HIGH_WATER_MARK = Definition(
    "cdc.table.high_water_mark", "{arrival}", "Newest arrival that was read.", _TABLE
)
NEWEST_EVENT = Definition(
    "cdc.table.newest_event.timestamp", "s", "Unix time of the newest event, at the source.", _TABLE
)
LAST_CHANGE = Definition(
    "cdc.table.last_change.timestamp",
    "s",
    "Unix time of the last run that changed the table.",
    _TABLE,
)
LAST_CHANGE_DURATION = Definition(
    "cdc.table.last_change.duration",
    "s",
    "How long the last run that changed the table worked on it.",
    _TABLE,
)
LAST_CHANGE_LAG = Definition(
    "cdc.table.last_change.lag",
    "s",
    "How long the oldest event of the last change had waited when it was committed.",
    _TABLE,
)
QUARANTINED = Definition(
    "cdc.table.quarantined_events",
    "{event}",
    "Bad events so far; at least so many where a first build did not count them.",
    _TABLE,
)
FAILED_TESTS = Definition(
    "cdc.table.failed_tests", "{test}", "Tests of the table that failed in the last build.", _TABLE
)
EVENTS = Definition(
    "cdc.table.events",
    "{event}",
    "Events of the runs in the ledger, by outcome.",
    (*_TABLE, "outcome"),
    True,
)
EVENTS_READ = Definition(
    "cdc.table.events_read",
    "{event}",
    "Events that the runs in the ledger read, those of first builds included.",
    _TABLE,
    True,
)
EVENTS_LATE = Definition(
    "cdc.table.events_late",
    "{event}",
    "Late-arriving events among those of the runs in the ledger.",
    _TABLE,
    True,
)
EVENTS_TIED = Definition(
    "cdc.table.events_tied",
    "{event}",
    "Events of the runs in the ledger that share their position with another one of their row.",
    _TABLE,
    True,
)
EVENTS_LEFT_OUT = Definition(
    "cdc.table.events_left_out",
    "{event}",
    "Records of the runs in the ledger that are no change of a row.",
    _TABLE,
    True,
)
ROWS = Definition("cdc.relation.rows", "{row}", "Rows, without deleted ones.", _RELATION)
FILES = Definition("cdc.relation.files", "{file}", "Files of the newest version.", _RELATION)
SMALL_FILES = Definition(
    "cdc.relation.small_files", "{file}", "Files that cdc_optimize would put together.", _RELATION
)
SIZE = Definition("cdc.relation.size", "By", "Size of the files of the newest version.", _RELATION)
DELETION_VECTORS = Definition(
    "cdc.relation.deletion_vectors", "{file}", "Files with a deletion vector.", _RELATION
)
HIDDEN_ROWS = Definition(
    "cdc.relation.hidden_rows", "{row}", "Rows that deletion vectors hide.", _RELATION
)
VERSION = Definition(
    "cdc.relation.version", "{version}", "Newest version of the Delta table.", _RELATION
)
BUILD_START = Definition(
    "cdc.build.start.timestamp", "s", "Unix time at which the last build started.", _PROJECT
)
BUILD_DURATION = Definition("cdc.build.duration", "s", "How long the last build took.", _PROJECT)
BUILD_NODES = Definition(
    "cdc.build.nodes", "{node}", "Nodes of the last build, by dbt's status.", (*_PROJECT, "status")
)
BUILD_FAILED = Definition(
    "cdc.build.failed_nodes", "{node}", "Nodes that failed in the last build.", _PROJECT
)
NODE_DURATION = Definition(
    "cdc.build.node.duration",
    "s",
    "How long the last build worked on a model, snapshot or seed.",
    (*_PROJECT, "node", "kind"),
)

DEFINITIONS = (
    STATE,
    LAG,
    UNREAD,
    UNREAD_VERSIONS,
    HIGH_WATER_MARK,
    NEWEST_EVENT,
    LAST_CHANGE,
    LAST_CHANGE_DURATION,
    LAST_CHANGE_LAG,
    QUARANTINED,
    FAILED_TESTS,
    EVENTS,
    EVENTS_READ,
    EVENTS_LATE,
    EVENTS_TIED,
    EVENTS_LEFT_OUT,
    ROWS,
    FILES,
    SMALL_FILES,
    SIZE,
    DELETION_VECTORS,
    HIDDEN_ROWS,
    VERSION,
    BUILD_START,
    BUILD_DURATION,
    BUILD_NODES,
    BUILD_FAILED,
    NODE_DURATION,
)


def measure(project: Project, found: Sequence[TableStatus], now: datetime) -> list[Sample]:
    """Returns what is known of a project's tables and of its last build.

    A number that is not known has no sample.

    Args:
        project: The project.
        found: Its tables.
        now: The present.
    """
    samples = list(_of_build(project, project.last_run) if project.last_run else ())
    for one in found:
        samples += _of_table(project, one, now)
    return samples


def _of_table(project: Project, one: TableStatus, now: datetime) -> Iterator[Sample]:
    node = one.table.final or one.table.reader
    labels = {"project": project.name, "schema": node["schema"], "table": one.table.name}
    for state in STATES:
        yield Sample(STATE, {**labels, "state": state}, int(one.state == state))
    last = one.runs[-1] if one.runs else None
    yield from _known(
        labels,
        (LAG, _seconds(one.lag(now))),
        (UNREAD, one.unread.rows),
        (UNREAD_VERSIONS, one.unread_versions),
        (HIGH_WATER_MARK, one.high_water_mark),
        (NEWEST_EVENT, _unix(instant(one.newest_event))),
        (LAST_CHANGE, _unix(last.at if last else None)),
        (LAST_CHANGE_DURATION, last.seconds if last else None),
        (LAST_CHANGE_LAG, _seconds(last.lag if last else None)),
        (QUARANTINED, one.quarantined),
        (FAILED_TESTS, len(one.failed_tests)),
    )
    yield from _of_runs(labels, [run for run in one.runs if run.recorded])
    for stored in one.stored:
        yield from _of_relation(labels, stored)


def _of_runs(labels: Mapping[str, str], runs: Sequence[Run]) -> Iterator[Sample]:
    """Counters of the ledger alone: a log forgets runs, and a counter must not fall."""
    if not runs:
        return

    def counted(name: str) -> int:
        return sum(run.counters.get(name) or 0 for run in runs)

    since = runs[0].at
    for outcome in OUTCOMES:
        yield Sample(EVENTS, {**labels, "outcome": outcome}, counted(outcome), since)
    yield Sample(EVENTS_READ, labels, counted("read"), since)
    yield Sample(EVENTS_LATE, labels, counted("late"), since)
    yield Sample(EVENTS_TIED, labels, counted("tied"), since)
    yield Sample(EVENTS_LEFT_OUT, labels, counted("left_out"), since)


def _of_relation(labels: Mapping[str, str], stored: Stored) -> Iterator[Sample]:
    table = stored.table
    if table is None:
        return
    node = stored.node
    own = {**labels, "schema": node["schema"], "relation": str(node.get("alias") or node["name"])}
    yield from _known(
        own,
        (ROWS, table.rows),
        (FILES, len(table.files)),
        (SMALL_FILES, stored.small_files),
        (SIZE, table.size),
        (DELETION_VECTORS, table.deletion_vectors),
        (HIDDEN_ROWS, table.deleted_rows),
        (VERSION, table.version),
    )


def _of_build(project: Project, last: LastRun) -> Iterator[Sample]:
    schema = str(project.credentials.schema) if project.credentials else ""
    labels = {"project": project.name, "schema": schema}
    results = list(last.results.values())
    yield from _known(
        labels,
        (BUILD_START, _unix(last.started)),
        (BUILD_DURATION, last.seconds),
        (BUILD_FAILED, sum(result.failed for result in results)),
    )
    for status in sorted({result.status for result in results}):
        count = sum(result.status == status for result in results)
        yield Sample(BUILD_NODES, {**labels, "status": status}, count)
    for result in results:
        node: Node = project.node(result.node)
        if node.get("resource_type") in BUILT:
            own = {**labels, "node": str(node["name"]), "kind": str(node["resource_type"])}
            yield Sample(NODE_DURATION, own, result.seconds)


def _known(labels: Mapping[str, str], *values: tuple[Definition, float | None]) -> Iterator[Sample]:
    for definition, value in values:
        if value is not None:
            yield Sample(definition, labels, value)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _unix(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _families(samples: Iterable[Sample]) -> dict[Definition, list[Sample]]:
    """The samples of each definition, in the order of the definitions."""
    families: dict[Definition, list[Sample]] = {definition: [] for definition in DEFINITIONS}
    for sample in samples:
        families[sample.definition].append(sample)
    return {definition: own for definition, own in families.items() if own}


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Returns samples in Prometheus' text format, version 0.0.4.

    It has no times, which the textfile collector of node_exporter would refuse.

    Args:
        samples: What was measured.
    """
    lines = []
    for definition, own in _families(samples).items():
        name = definition.prometheus_name
        lines.append(f"# HELP {name} {_escaped(definition.text)}")
        lines.append(f"# TYPE {name} {'counter' if definition.counts else 'gauge'}")
        for sample in own:
            labels = ",".join(
                f'{label}="{_escaped(sample.labels[label], quote=True)}"'
                for label in definition.labels
            )
            lines.append(f"{name}{{{labels}}} {sample.value!r}")
    return "".join(line + "\n" for line in lines)


def _escaped(text: str, quote: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped


def send(samples: Iterable[Sample], now: datetime, environment: Mapping[str, str]) -> list[str]:
    """Sends samples to an OpenTelemetry endpoint, as JSON over HTTP.

    Args:
        samples: What was measured.
        now: When.
        environment: The variables of this process, to name the endpoint.

    Returns:
        What the exporter complained of, such as a variable that it does not understand.

    Raises:
        CannotSend: The packages are missing, the endpoint is no address, or it did not take the
            numbers.
    """
    try:
        from opentelemetry.exporter.otlp.json.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import MetricExportResult
    except ImportError as exc:
        raise CannotSend(
            f"--otlp needs packages that are not installed ({exc.name}): "
            "pip install 'dbt-spark-cdc[otel]'",
            2,
        ) from exc
    variable, endpoint = _endpoint(environment)
    if not endpoint.startswith(("http://", "https://")):
        raise CannotSend(
            f"{variable} is '{environment[variable]}', which does not begin with http:// or "
            f"https://. Set it to the address of a collector, for instance {ENDPOINT_BY_DEFAULT}",
            2,
        )
    with _complaints("opentelemetry.exporter") as complaints:
        try:
            exporter = OTLPMetricExporter()
            sent = exporter.export(_metrics_data(samples, now))
            exporter.shutdown()
        except (OSError, ValueError) as exc:  # a variable of the exporter's, or a certificate
            raise CannotSend(
                f"The exporter for {endpoint} cannot be set up: {exc}. Correct the environment "
                "variables OTEL_EXPORTER_OTLP_*",
                2,
            ) from exc
    if sent is not MetricExportResult.SUCCESS:
        why = "".join(f"\n  {line}" for line in complaints)
        raise CannotSend(
            f"{endpoint} did not take the metrics. {variable} names the collector, for instance "
            f"{ENDPOINT_BY_DEFAULT}, which has to take OTLP over HTTP.{why}",
            1,
        )
    return complaints


def _endpoint(environment: Mapping[str, str]) -> tuple[str, str]:
    """The variable that says where the exporter sends to, and where that is."""
    if named := environment.get(ENDPOINT_OF_METRICS):
        return ENDPOINT_OF_METRICS, named
    base = environment.get(ENDPOINT) or ENDPOINT_BY_DEFAULT
    return ENDPOINT, f"{base.rstrip('/')}/v1/metrics"


@contextmanager
def _complaints(name: str) -> Iterator[list[str]]:
    """What a logger and those below it say while the block lasts, each thing once."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = record.getMessage().partition(", retrying in")[0]
            if line not in complaints:
                complaints.append(line)

    complaints: list[str] = []
    logger, listener = logging.getLogger(name), Listener(logging.WARNING)
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield complaints
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagated


def _metrics_data(samples: Iterable[Sample], now: datetime) -> MetricsData:
    """Samples as the SDK's exporters take them.

    The SDK's own instruments would begin to count when this process begins; the ledger did earlier.
    """
    from dbt.adapters.sparkcdc.__version__ import version
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = [_metric(definition, own, now) for definition, own in _families(samples).items()]
    scope = ScopeMetrics(InstrumentationScope(__name__, version), metrics, "")
    return MetricsData([ResourceMetrics(_resource(version), [scope], "")])


def _metric(definition: Definition, samples: Sequence[Sample], now: datetime) -> Metric:
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Metric,
        NumberDataPoint,
        Sum,
    )

    points = [
        NumberDataPoint(
            attributes={f"cdc.{label}": sample.labels[label] for label in definition.labels},
            start_time_unix_nano=_nanoseconds(sample.since) if sample.since else 0,
            time_unix_nano=_nanoseconds(now),
            value=sample.value,
        )
        for sample in samples
    ]
    data = (
        Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        if definition.counts
        else Gauge(points)
    )
    return Metric(definition.name, definition.text, definition.unit, data)


def _resource(version: str) -> Resource:
    """Who measured; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    own = Resource.create({"service.name": SERVICE, "service.version": version})
    return own.merge(OTELResourceDetector().detect())


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
