# `make` alone prints this help. Every target sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
# Tests wait for brokers as often as they compute, so there is one process more than cores; Spark tests share one session
# per process.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup check format test test-fast docs demo bench clean

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

test: check $(PEERS) ## Everything CI runs
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

test-fast: $(READY) ## The pure core and the papers' rules, without Spark, in about two minutes
	ROAMQ_RIDES=2 $(BIN)/python -m pytest -q -n $(WORKERS) -p tests.support.without_spark --hypothesis-profile=quick \
		-m "not spark and not slow and not live and not data"

docs: $(READY) ## The documentation site, into build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

demo: $(READY) ## The tour: simulate, aggregate on Spark, open the report
	$(BIN)/roamq demo

bench: $(READY) ## Speed and scale, as ratios against peers in the same run
	$(BIN)/python -m benchmarks

clean: ## Remove what can be made again
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
