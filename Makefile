PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A worker per core, each on one thread. The tests of one file share what they set up, and the folders
# with the longest files come first (tests/conftest.py), so that no core waits for the last file.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(or $(WORKERS),auto) --dist loadfile --no-loadscope-reorder

export HF_HUB_OFFLINE := 1

.PHONY: run models test test-all test-vllm lint bench mutants docs commands notebooks paper browser wheel size clean help

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,text]'
	touch $@

run: $(STAMP)  ## the main job: scientists, half of them women; report in runs/scientists/report.html
	$(BIN)/quasir run scientists

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# SmolLM2, which tests serve for real; fetched once, into the user's cache.
models: $(STAMP)
	$(BIN)/quasir models get smollm2

test: lint browser models  ## style, types, and every test that is not slow
	$(PYTEST) -m 'not slow'

test-all: lint browser models  ## the slow tests too
	$(PYTEST)

test-vllm: models  ## served models with a real vLLM, in an environment of its own (2.5 GB, ten minutes)
	$(BIN)/python tools/vllm_environment.py .venv-vllm
	OMP_NUM_THREADS=1 $(BIN)/pytest -s tests/served/vllm_for_real.py

browser:  # Debian's chromium, in which the report is tested; installed once, where it is absent
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		echo "installing Debian's chromium and chromium-driver, which the report is tested in"; \
		sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$sudo apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends \
			chromium chromium-driver >/dev/null; }

docs: commands  ## the site, with every notebook run: docs/_build/html/index.html (ten minutes, the first time)
	$(BIN)/quasir run scientists --out docs/_build/runs/scientists
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

commands: $(STAMP)  ## write docs/commands.md anew
	$(BIN)/python -c 'from quasir.cli.main import document; print(document(), end="")' > docs/commands.md

notebooks: $(STAMP)  ## run the tutorials that have changed, and write them to docs/notebooks with their outputs
	PATH="$(CURDIR)/$(BIN):$$PATH" OMP_NUM_THREADS=1 $(BIN)/python tools/notebooks.py

paper: models  ## every figure and table of the paper (DRAWS=20000 LARGE=250 OUT=runs/paper), with their models; resumes
	$(BIN)/python -m experiments --draws $(or $(DRAWS),20000) --large $(or $(LARGE),250) --out $(or $(OUT),runs/paper)
	$(BIN)/python -m experiments.page --out $(or $(OUT),runs/paper) --page $(or $(OUT),runs/paper)/paper.md

mutants: $(STAMP)  ## change the source at random, and see whether a test fails (an hour; MUTANTS=150 SEED=17)
	OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py --sample $(or $(MUTANTS),150) --seed $(or $(SEED),17)

bench: $(STAMP)  ## the benchmark table: ratios within one run, on a quiet machine
	$(BIN)/python -m benchmarks

wheel: $(STAMP)  ## sdist and wheel in dist/; the wheel is installed into an empty environment and run
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/wheel/bin/quasir run poissons --out build/wheel/run

size: $(STAMP)  ## lines, modules, names, and the modules that two walks cross
	$(BIN)/python tools/size.py --walks

clean:  ## forget the environment and every cache
	rm -rf $(VENV) .venv-vllm build dist docs/_build docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
