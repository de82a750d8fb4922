# `make` alone prints this help. Every target sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
# Tests wait for brokers as often as they compute, so there is one process more than cores; those that need the Spark
# session run in one of them.
WORKERS ?= 3
# Tests start hundreds of processes that import the same modules: each module is compiled once, not once in each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check format test pytest test-fast docs demo bench clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## Python environment and, where missing, Java for Spark

$(READY): pyproject.toml constraints.txt scripts/setup
	@PYTHON=$(PYTHON) bash scripts/setup $(VENV)
	@touch $@

# Programs that some tests use; without them those tests are skipped.
$(PEERS): $(READY) scripts/setup-peers
	@bash scripts/setup-peers
	@touch $@

check: $(READY) ## Formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## Rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Lint and types need one core, and most tests wait part of their time: they run side by side.
test: $(PEERS) ## Everything CI runs
	@$(MAKE) --no-print-directory --jobs 2 check pytest

pytest: $(PEERS)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

test-fast: $(READY) ## The pure core and the papers' rules, without Spark, in less than a minute
	ROAMQ_RIDES=2 ROAMQ_SEQUENCES=5 $(BIN)/python -m pytest -q -n 2 --dist loadgroup -p tests.support.without_spark \
		--hypothesis-profile=quick -m "not spark and not slow and not live and not data"

docs: $(READY) ## The documentation site, into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

demo: $(READY) ## The tour: simulate, aggregate on Spark, open the report
	$(BIN)/roamq demo

bench: $(READY) ## Speed and scale, as ratios against peers in the same run
	$(BIN)/python -m benchmarks

clean: ## Remove what can be made again
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
