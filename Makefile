# Everything runs from a virtual environment of its own, .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help nexmark test test-all quick lint type bench chaos docs lock clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

nexmark: .venv/run ## Run the Nexmark queries on the embedded executor
	@$(BIN)/penstock nexmark $(ARGS)

test: .venv/test lint type ## Lint, check types and test every part
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "not long" $(ARGS)

test-all: .venv/test lint type ## All tests, also those that take long: before a release
	PENSTOCK_CASES=1000 $(BIN)/pytest -q -n 2 --dist loadgroup $(ARGS)

quick: .venv/test ## Run the fast tests only
	$(BIN)/pytest -q -n 2 --dist loadgroup -m "not slow and not long"

lint: .venv/test ## Style (ruff) and floors (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

type: .venv/test ## mypy --strict
	$(BIN)/mypy

bench: .venv/test ## Measure Nexmark beside batch engines, one core; writes benchmarks/results
	$(BIN)/python -m penstock.benchmarks.nexmark.bench $(ARGS)

chaos: .venv/test ## Kill a pipeline thousands of times, tests under random settings; 90 minutes, goes on where it stopped
	$(BIN)/python -m tests.chaos.run $(ARGS)

docs: .venv/test ## Build the documentation into site/
	$(BIN)/python docs/reference_tables.py
	$(BIN)/mkdocs build --quiet --strict

lock: .venv/test ## Write requirements.lock from what .venv holds
	$(BIN)/pip freeze --exclude-editable > requirements.lock

clean: ## Remove .venv and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/made:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/run: .venv/made setup.cfg
	$(BIN)/pip install -q -e . $(if $(LOCKED),-c requirements.lock)
	@touch $@

.venv/test: .venv/made setup.cfg
	$(BIN)/pip install -q -e '.[test]' $(if $(LOCKED),-c requirements.lock)
	@touch $@ .venv/run
