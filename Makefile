# The verbs of this project: the same on a laptop and in CI. `make` lists them.
#
# PYTHON      the Python that .venv is made with, 3.11 to 3.13: make setup PYTHON=python3.12
# BENCH_ARGS  further arguments for bench-train and bench-translate: make bench-train BENCH_ARGS="--seconds 60 --json OUT"
# PIP_ARGS    further arguments for pip, for example the index of another torch build: make setup PIP_ARGS="--extra-index-url ..."

PYTHON ?= python3
PIP_ARGS ?=
BENCH_ARGS ?=

BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt
# Stamps: newer than pyproject.toml and constraints.txt when what these ask for is installed.
RUNTIME := .venv/.installed
DEV := .venv/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help setup demo check test torture test-slow bench bench-train bench-translate clean

help:  ## list these verbs
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: $(DEV)  ## make .venv and install nmt into it, with what check and test need

demo: $(RUNTIME)  ## train a small English-Mandarin model on the pairs in data/, and translate with it
	$(BIN)/python scripts/demo.py

check: $(DEV)  ## lint, formatting and types: ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy nmt

test: $(DEV)  ## the tests that take seconds, in one process a core
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --dist loadfile

torture: $(RUNTIME)  ## kill trainings at random moments, damage their files, and see that nothing is lost
	$(BIN)/python scripts/torture.py

test-slow: $(DEV)  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

bench: $(RUNTIME)  ## time the start of the command line against that of torch (benchmarks/startup.py)
	$(BIN)/python benchmarks/startup.py

bench-train: $(RUNTIME)  ## training speed beside peers, each in an environment that is made for it: docs/benchmarks.md
	$(BIN)/python benchmarks/train.py $(BENCH_ARGS)

bench-translate: $(RUNTIME)  ## translation speed beside peers: docs/benchmarks.md
	$(BIN)/python benchmarks/translate.py $(BENCH_ARGS)

clean:  ## remove .venv, caches and build output; runs/ stays
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find nmt tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("$(PYTHON) is Python %d.%d, and nmt needs 3.11 to 3.13: make setup PYTHON=python3.12" % v)'
	$(PYTHON) -m venv .venv

$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e ".[dev,ctranslate2]"
	@touch $(RUNTIME) $@
