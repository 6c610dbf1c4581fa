"""Adapter plugin `type: sparkcdc`: dbt-spark inside one local JVM, or against Spark Connect."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.sparkcdc.connections import SparkCdcConnectionManager
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.include import sparkcdc

__all__ = ["Plugin", "SparkCdcAdapter", "SparkCdcConnectionManager", "SparkCdcCredentials"]

Plugin = AdapterPlugin(
    adapter=SparkCdcAdapter,  # type: ignore[arg-type]  # as dbt-spark does
    credentials=SparkCdcCredentials,
    include_path=sparkcdc.PACKAGE_PATH,
    dependencies=["spark"],
)
