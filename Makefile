# `make` lists the verbs. Everything runs from .venv, which `make setup` makes and the other verbs make when it is missing.
.DEFAULT_GOAL := help
.PHONY: help setup demo bench test fuzz lint format clean

# .venv is current when it holds the stamp of these two files and of this folder (an environment cannot be moved).
STAMP := .venv/.stamp-$(shell { cat pyproject.toml constraints.txt; pwd; } | cksum | tr ' ' '-')
BIN := .venv/bin
PYTEST_FLAGS ?= -n 2

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv and install what constraints.txt names (skipped when it is current)

$(STAMP):
	@rm -f .venv/.stamp-*
	@bash .ci/setup
	@touch $@

demo: $(STAMP) ## compile a model of a hundred columns, check it against TensorFlow, and time both
	@$(BIN)/python -m benchmarks.demo

bench: $(STAMP) ## time the benchmark cases beside TensorFlow (CASES="E10 micro100" for some of them)
	@$(BIN)/python -m benchmarks $(CASES)

test: lint ## lint, then every test that this machine can run
	@$(BIN)/python -m pytest $(PYTEST_FLAGS)

fuzz: $(STAMP) ## random models beside TensorFlow (FUZZ="--cases 1000 --seed 7" for others)
	@TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python -m colonnade.testing.fuzz $(FUZZ)

lint: $(STAMP) ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(STAMP) ## let ruff sort imports and lay out the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

clean: ## remove caches and build folders (.venv stays)
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
