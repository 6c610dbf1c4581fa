"""What export to Kafka and landing from it share: the connection, and errors without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

# Options of Kafka's clients in the profile, where secrets can come from the environment.
CONNECTION = "kafka"
SECRET = re.compile(r"(?i)jaas|password|secret|token|\.key$")
SHORTEST_SECRET = 4
NO_CONNECTOR = "data source: kafka"


def client_options(session: Any, connection: str = CONNECTION) -> dict[str, str]:
    """Returns the options of Kafka's clients that the profile has, as Spark's connector takes them.

    Args:
        session: Spark session.
        connection: The settings are `spark.cdc.<connection>.*`.
    """
    prefix = f"spark.cdc.{connection}."
    return {
        f"kafka.{name.removeprefix(prefix)}": value
        for name, value in session.conf.getAll.items()
        if name.startswith(prefix)
    }


def no_broker(options: Mapping[str, str], connection: str = CONNECTION) -> list[str]:
    """Returns what is wrong where the profile names no broker.

    Args:
        options: Of `client_options`.
        connection: The settings are `spark.cdc.<connection>.*`.
    """
    if options.get("kafka.bootstrap.servers"):
        return []
    return [
        f"no broker is known: write `spark.cdc.{connection}.bootstrap.servers: host:port` to the"
        " profile's server_side_parameters"
    ]


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Returns a message without the values of secret options.

    Args:
        text: The message.
        options: Of `client_options`.
    """
    for name, value in options.items():
        if SECRET.search(name) and len(value) >= SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text


def connector_is_missing() -> str:
    """Says how to add Spark's connector for Kafka."""
    return f"Spark has no connector for Kafka: {how_to_add('spark-sql-kafka-0-10')}"


def how_to_add(package: str) -> str:
    """Says how to add a package of Spark's own.

    Args:
        package: Its name, without the version of Scala.
    """
    release = ".".join(version("pyspark").split(".")[:2])
    return (
        f"add its release for Spark {release} to the profile's server_side_parameters, such as"
        f" `spark.jars.packages: org.apache.spark:{package}_2.13:{release}.1`, after a comma where"
        " it has other packages"
    )
