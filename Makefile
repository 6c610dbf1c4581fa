# `make build` runs the captured changes to tested tables; `make test` runs the tests. Both set up what they need.
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
E2E := .venv-e2e
E2E_INSTALLED := $(E2E)/.installed
BENCH := .venv-bench
SCALE ?= small
CHROMIUM ?= chromium
TWO_PROCESSES := -n 2 --dist loadscope --no-loadscope-reorder
SQL := $(wildcard models macros snapshots tests integration_tests)
# With processes of its own sqlfluff leaves semaphores behind, of which Python warns. It takes folders, in which .sqlfluffignore holds.
LINTED := $(filter-out %.md,$(wildcard models macros/* snapshots tests integration_tests))
CORES := $(shell getconf _NPROCESSORS_ONLN)

export DBT_PROFILES_DIR := $(CURDIR)
export DBT_SEND_ANONYMOUS_USAGE_STATS := false
export DO_NOT_TRACK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build test test-extended bench soak conformance browser browser-tests e2e cluster-up cluster-down lint format docs package capture lock clean distclean java spark

help:
	@echo "make build    captured changes to tested SCD2 and SCD1 tables, batch after batch, in warehouse/"
	@echo "make test     unit and functional tests, about a dozen minutes, with conformance where its data is named"
	@echo "make test-extended  the other functional tests, about half an hour"
	@echo "make soak     what takes long: killed builds, builds side by side, random scenarios for MINUTES=n; ONLY=test_kill"
	@echo "make bench    workloads beside peers, to docs/benchmarks.md; SCALE=medium, lake, loads, live (half an hour to two hours each), full (hours), ONLY=W1"
	@echo "make conformance  other projects' change events, in the folder CDC_CONFORMANCE_DATA, to final tables"
	@echo "make e2e      against real servers: PostgreSQL with wal2json, Spark Thrift, Spark Connect, Kafka, Debezium; pages in Chromium"
	@echo "make cluster-up   a Spark cluster of this machine for --target connect and thrift; make cluster-down stops it"
	@echo "make browser  the report and the documentation in Chromium, a part of make e2e"
	@echo "make lint     SQL, macros and Python: style and types"
	@echo "make format   fixes what the linters can fix"
	@echo "make docs     the documentation as a site, site/index.html, with the lineage of every model and column"
	@echo "make package  dist/: the wheel, its sources and the dbt package as an archive"
	@echo "make capture  captures data/ again from a PostgreSQL of your own"
	@echo "make lock     resolves the three requirements*.lock again from pyproject.toml"
	@echo "make clean    removes what was built; make distclean the virtual environment too"

build: java $(INSTALLED)
	@$(BIN)/python scripts/build.py

test: spark
	@$(BIN)/python -m pytest -m "not extended and not soak" $(TWO_PROCESSES) tests/functional tests/unit $(if $(CDC_CONFORMANCE_DATA),tests/conformance)

test-extended: spark
	@$(BIN)/python -m pytest -m "extended and not soak" --durations=12 $(TWO_PROCESSES)

soak: spark
	@MINUTES=$(or $(MINUTES),10) $(BIN)/python -m pytest -m soak $(addprefix -k ,$(ONLY)) $(TWO_PROCESSES)

bench: spark $(BENCH)/.installed
	@PYTHONPATH=src $(BENCH)/bin/python -m bench --scale $(SCALE) $(addprefix --only ,$(ONLY))

conformance: spark
	@$(BIN)/python -m pytest tests/conformance -rs

browser:
	@if command -v $(CHROMIUM) >/dev/null; then $(MAKE) --no-print-directory browser-tests; \
		else echo "$(CHROMIUM) is missing, so that no page was opened: apt-get install chromium, or name one in CHROMIUM"; fi

browser-tests: java $(E2E_INSTALLED)
	@$(E2E)/bin/python -m pytest tests/e2e/test_browser.py -rs

e2e: java $(E2E_INSTALLED)
	@$(E2E)/bin/python -m pytest tests/e2e -rs

cluster-up: java $(E2E_INSTALLED)
	@$(E2E)/bin/python -m cluster up

# It must work where nothing can be installed.
cluster-down:
	@$(E2E)/bin/python -m cluster down

lint: $(INSTALLED)
	@printf '%s\n' $(LINTED) | xargs -P $(CORES) -n 2 $(BIN)/sqlfluff lint --disable-progress-bar
	@$(BIN)/python scripts/lint_sql.py $(SQL) src/dbt/include
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/cdc generate --check
	@$(BIN)/python scripts/reference.py --check
	@$(BIN)/python scripts/pictures.py --check
	@$(BIN)/python -m bench.at_scale --check

format: $(INSTALLED)
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet
	@$(BIN)/sqlfluff fix --disable-progress-bar --quiet models

# The shop is part of the lineage; without the variable dbt reads the package alone. The theme would advertise its successor.
# Its artifacts have a folder of their own, so that the results of the last build stay.
docs: export CDC_REFERENCE_PROJECT := 1
docs: export DBT_TARGET_PATH := target/docs
docs: export NO_MKDOCS_2_WARNING := 1
docs: spark
	@$(BIN)/python scripts/docs.py
	@$(BIN)/mkdocs build --quiet
	@echo "site/index.html is ready, with the lineage in site/lineage.html: any browser opens them, no server needed"

package: $(INSTALLED)
	@$(BIN)/python scripts/package.py

capture: $(INSTALLED)
	@$(BIN)/python -m capture --seed 20261121 --events 24000 --batches 4 --out data

lock: $(BIN)/uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --extra dev --extra otel --output-file requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --constraint requirements.lock --extra dev --extra otel --extra e2e \
		--output-file requirements-e2e.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --constraint requirements.lock --extra bench \
		--output-file requirements-bench.lock pyproject.toml
	@for lock in requirements*.lock; do echo "$$lock: $$(grep -c '==' $$lock) packages"; done

clean:
	@rm -rf warehouse target logs site dist dbt_packages metastore_db spark-warehouse derby.log \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV) $(E2E) $(BENCH)

java:
	@sh scripts/check_java.sh

spark: java $(INSTALLED)
	@$(BIN)/python -m dbt.adapters.sparkcdc.prepare

# uv comes from the lock like everything else, and then installs the rest of it.
$(BIN)/uv:
	@python="$$(sh scripts/find_python.sh)" && \
		echo "Setting up the virtual environment in $(VENV) (once) ..." && \
		"$$python" -m venv --clear $(VENV)
	@awk '/^[^ #]/ { uv = /^uv==/ } uv' requirements.lock > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock

$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/uv
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# The servers' clients stay out of the environment that everything else runs in.
$(E2E_INSTALLED): requirements-e2e.lock pyproject.toml $(INSTALLED)
	@$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(E2E)
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(E2E)/bin/python --require-hashes requirements-e2e.lock
	@$(BIN)/uv pip install --quiet --python $(E2E)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

# The peers have an environment of their own: `make build` neither waits for them nor throws them out.
$(BENCH)/.installed: requirements-bench.lock | $(BIN)/uv
	@echo "Setting up the virtual environment in $(BENCH) (once) ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(BENCH)
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BENCH)/bin/python --require-hashes requirements-bench.lock
	@touch $@
