PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export HF_HUB_OFFLINE := 1

.PHONY: run test test-all lint bench clean help

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,text]'
	touch $@

run: $(STAMP)  ## the main job: the two Poissons of section 3.1, a table and figures/two_poissons.png
	$(BIN)/python examples/two_poissons.py

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## style, types, and every test that is not slow
	$(BIN)/pytest -m 'not slow'

test-all: lint  ## the slow tests too
	$(BIN)/pytest

bench: $(STAMP)  ## the benchmark table: ratios within one run, on a quiet machine
	$(BIN)/python -m benchmarks

clean:  ## forget the environment and every cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
