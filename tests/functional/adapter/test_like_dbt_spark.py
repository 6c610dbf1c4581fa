"""dbt's own tests for adapters, on local sessions and Delta; docs/adapter.md has the rest."""

from __future__ import annotations

import getpass
from typing import Any

import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic.test_adapter_methods import BaseAdapterMethod
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate
from dbt.tests.adapter.basic.test_empty import BaseEmpty
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_singular_tests import BaseSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import BaseSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import BaseSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.adapter.basic.test_validate_connection import BaseValidateConnection
from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowLimit
from dbt.tests.adapter.empty.test_empty import BaseTestEmpty
from dbt.tests.adapter.incremental.test_incremental_merge_exclude_columns import (
    BaseMergeExcludeColumns,
)
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.python_model.test_python_model import (
    BasePythonEmptyTests,
    BasePythonIncrementalTests,
    BasePythonMetaGetTests,
    BasePythonModelTests,
)
from dbt.tests.adapter.relations.test_changing_relation_type import BaseChangeRelationTypeValidator
from dbt.tests.adapter.unit_testing.test_types import BaseUnitTestingTypes
from dbt.tests.adapter.utils.data_types.test_type_bigint import BaseTypeBigInt
from dbt.tests.adapter.utils.data_types.test_type_numeric import BaseTypeNumeric
from dbt.tests.adapter.utils.data_types.test_type_timestamp import BaseTypeTimestamp

pytestmark = pytest.mark.extended

DELTA = {"+file_format": "delta"}


class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


@pytest.mark.soak
class TestSingularTests(BaseSingularTests):
    pass


@pytest.mark.soak
class TestSingularTestsEphemeral(BaseSingularTestsEphemeral):
    pass


class TestEmpty(BaseEmpty):
    pass


@pytest.mark.soak
class TestEphemeral(BaseEphemeral):
    pass


@pytest.mark.soak
class TestGenericTests(BaseGenericTests):
    pass


@pytest.mark.soak
class TestAdapterMethod(BaseAdapterMethod):
    pass


class TestValidateConnection(BaseValidateConnection):
    pass


class TestShowLimit(BaseShowLimit):
    pass


class TestEmptyFlag(BaseTestEmpty):
    pass


class TestChangeRelationType(BaseChangeRelationTypeValidator):
    pass


class TestIncremental(BaseIncremental):
    pass


class TestMergeExcludeColumns(BaseMergeExcludeColumns):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {**DELTA, "+incremental_strategy": "merge"}, "seeds": DELTA}


class TestMergePredicates(BaseIncrementalPredicates):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        predicates = ["dbt_internal_dest.id != 2"]
        merge = {"+incremental_strategy": "merge", "+incremental_predicates": predicates}
        return {"models": DELTA | merge, "seeds": DELTA}


@pytest.mark.soak
class TestSnapshotCheckCols(BaseSnapshotCheckCols):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"name": "snapshot_strategy_check_cols", "seeds": DELTA, "snapshots": DELTA}


class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"name": "snapshot_strategy_timestamp", "seeds": DELTA, "snapshots": DELTA}


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def project_config_update(self, unique_schema: str) -> dict[str, Any]:
        vars_ = {"test_schema": unique_schema, "alternate_schema": f"{unique_schema}_test"}
        paths = {"asset-paths": ["assets", "invalid-asset-paths"]}
        return {**paths, "vars": vars_, "seeds": DELTA | {"quote_columns": True}}

    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> Any:
        return expected_catalog.base_expected_catalog(
            project,
            role=getpass.getuser(),  # Spark's owner is whoever runs it
            id_type="bigint",
            text_type="string",
            time_type="timestamp",
            view_type="view",
            table_type="table",
            model_stats=expected_catalog.no_stats(),
        )


class TestPythonModel(BasePythonModelTests):
    pass


class TestPythonIncremental(BasePythonIncrementalTests):
    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {**DELTA, "+incremental_strategy": "merge"}}


class TestPythonMetaGet(BasePythonMetaGetTests):
    pass


class TestPythonEmpty(BasePythonEmptyTests):
    pass


class TestUnitTestingTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "1"],
            ["2.0", "2.0"],
            ["'12345'", "12345"],
            ["'O\\'Brien'", '"O\'Brien"'],
            ["true", "true"],
            ["date '2020-01-02'", "2020-01-02"],
            ["timestamp '2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
            ["cast('1.5' as decimal(10, 2))", "1.5"],
        ]


@pytest.mark.soak
class TestTypeBigInt(BaseTypeBigInt):
    pass


@pytest.mark.soak
class TestTypeNumeric(BaseTypeNumeric):
    def numeric_fixture_type(self) -> str:
        return "decimal(28,6)"


class TestTypeTimestamp(BaseTypeTimestamp):
    pass
