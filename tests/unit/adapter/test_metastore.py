from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.jvm import metastore
from dbt_common.exceptions import DbtRuntimeError

HOLDER = """
import sys, pathlib
from dbt.adapters.sparkcdc.jvm import metastore
metastore.hold(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("name", "option"), [(".metastore", "warehouse"), ("m", "metastore")])
def test_a_second_process_is_told_and_let_in_afterwards(
    tmp_path: Path, name: str, option: str
) -> None:
    folder = tmp_path / name
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(DbtRuntimeError) as error:
            metastore.hold(folder, wait=0)
        for word in (str(tmp_path), f"process {other.pid}", f"another `{option}`", "remote:"):
            assert word in " ".join(str(error.value.msg).split())
        assert other.stdin is not None
        other.stdin.close()
        holder = metastore.hold(folder, wait=10)
    assert holder is not None
    metastore.release(holder)
    metastore.release(metastore.hold(folder, wait=0))


def test_only_the_embedded_metastore_is_held() -> None:
    assert metastore.is_embedded({"spark.ui.enabled": "true"})
    assert metastore.is_embedded({"spark.sql.catalogImplementation": "hive"})
    assert metastore.is_embedded({"spark.hadoop.hive.metastore.uris": ""})
    assert not metastore.is_embedded({"spark.hadoop.hive.metastore.uris": "thrift://x:1"})
    assert not metastore.is_embedded({"spark.sql.catalogImplementation": "in-memory"})
