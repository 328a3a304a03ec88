# Everything runs in .venv, made on first use and again when its inputs change.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
OUTPUT ?= results/paper

.PHONY: help setup reproduce explore check test browser lint docs bench bench-laws clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# An environment that was copied or moved here still runs the code it was made for.
ifneq ($(shell cat .venv/.root 2>/dev/null),$(CURDIR))
.PHONY: .venv/.base
endif

.venv/.base: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here; set PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "batchlaw needs Python 3.11 or newer, got $$($(PYTHON) --version 2>&1); set PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@echo "$(CURDIR)" > .venv/.root
	@touch $@

.venv/.dev: .venv/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint,docs,torch,study,parquet,dask,explore]'
	@touch $@

.venv/.explore: .venv/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[explore]'
	@touch $@

setup: .venv/.base  ## make .venv with batchlaw in it

reproduce: .venv/.base  ## the paper's four experiments at full size (OUTPUT=results/paper)
	$(BIN)/python -m batchlaw reproduce --output-dir "$(OUTPUT)"

explore: .venv/.explore  ## the page on which all of it can be seen, on this machine
	$(BIN)/python -m batchlaw explore

# Types are checked beside the tests; the exit code is that of whichever fails.
check: .venv/.dev  ## style, types and the tests of the mathematics: within a minute
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest -m "not slow and not process and not browser and not torch" \
	  --durations=5 --durations-min=2; tests=$$?; \
	wait $$types && exit $$tests

test: .venv/.dev browser  ## all tests
	$(BIN)/python -m pytest

# Only root of a Debian may install it; elsewhere the tests of the page say what is missing.
browser:
	@if ! command -v chromium >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	  echo "chromium could not be installed: the page is not tested" >&2; fi

lint: .venv/.dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.dev  ## the documentation, docs/_build/html; offline, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

bench: .venv/.dev  ## speed ratios and errors of approximations, each measured in one run
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/huge_sketch.py
	$(BIN)/python benchmarks/exact_cost.py
	$(BIN)/python benchmarks/plan_speed.py
	$(BIN)/python benchmarks/approximations.py
	$(BIN)/python benchmarks/mean_field_limits.py
	$(BIN)/python benchmarks/adam_mean_field.py
	$(BIN)/python benchmarks/adam_cheap_form.py
	$(BIN)/python benchmarks/adam_cost.py
	$(BIN)/python benchmarks/batch_schedules.py
	$(BIN)/python benchmarks/bound_tightness.py
	$(BIN)/python benchmarks/laws_cost.py
	$(BIN)/python benchmarks/decay_levels.py
	$(BIN)/python benchmarks/sampler_overhead.py
	$(BIN)/python benchmarks/sweep_overhead.py
	$(BIN)/python benchmarks/estimate_coverage.py
	$(BIN)/python benchmarks/explorer_latency.py
	$(BIN)/python benchmarks/explorer_load.py

DATA ?= data
bench-laws: .venv/.dev  ## fitted laws on public curves (DATA=folder, see benchmarks/laws_public.py) and on our own
	$(BIN)/python benchmarks/fitted_laws.py "$(DATA)"
	$(BIN)/python benchmarks/trained_law_plans.py

clean:  ## remove the environment, results and caches
	rm -rf .venv results build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
