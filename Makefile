# The targets of this project: the same on a laptop and in CI. `make` lists them.
#
# PYTHON      the Python that .venv is made with, 3.11 to 3.14: make setup PYTHON=python3.12
# PIP_ARGS    further arguments for pip, for example the index of another torch build: make setup PIP_ARGS="--extra-index-url ..."
# TEST_ARGS   further arguments for pytest in test, test-slow, test-machines and coverage: make test TEST_ARGS=tests/model
# BENCH_ARGS  further arguments for bench-train, bench-translate and bench-compare: make bench-train BENCH_ARGS="--json OUT"
# DIST_ARGS   further arguments for scripts/check_dist.py
# SANITIZE_ARGS  further arguments for scripts/sanitize.py
# MACHINES    the machines that test-machines emulates, of those in scripts/machines.py (all)

PYTHON ?= python3
PIP_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
DIST_ARGS ?=
SANITIZE_ARGS ?=
MACHINES ?=

BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install $(PIP_ARGS) -c constraints.txt
NATIVE := $(wildcard nmt/decoding/native/*.[ch])
# Tests wait for the disk some ten thousand times; in memory, where there is room for 4 GB, no wait takes time. The files
# are removed at the end, and other users may pass through the folder, as one of a test does; TEST_ARGS="--basetemp FOLDER" keeps them.
MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
IN_MEMORY = $(if $(MEMORY),folder=$$(mktemp -d $(MEMORY)/nmt-tests.XXXXXX) && chmod 711 "$$folder"; trap 'rm -rf "$$folder"' EXIT INT TERM; TMPDIR=$$folder)
PYTEST = $(IN_MEMORY) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --dist loadfile --no-loadscope-reorder
# Even if the environment forbids it, Python keeps what it compiles: the tests start hundreds of processes of nmt.
unexport PYTHONDONTWRITEBYTECODE
# Stamps: newer than pyproject.toml, constraints.txt and the C sources when what these ask for is installed and built.
RUNTIME := .venv/.installed
DEV := .venv/.installed-dev
DOCS := .venv/.installed-docs

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-slow test-kernels test-machines coverage torture guards sanitize bench bench-train bench-translate \
	bench-compare docs docs-serve dist clean

help:  ## list these targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(DEV)  ## make .venv and install nmt into it, with what check and test need

demo: $(RUNTIME)  ## train a small English-Mandarin model on the pairs in data/, and translate with it
	$(BIN)/python scripts/demo.py

check: $(DEV)  ## lint, formatting and types: ruff, mypy, and basedpyright on programs as users write them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy nmt scripts benchmarks
	MYPYPATH=. $(BIN)/mypy --config-file= --strict --follow-imports silent tests/public_examples.py
	$(BIN)/basedpyright --pythonpath $(BIN)/python

test: $(DEV)  ## run the tests that take seconds, in one process per core
	$(PYTEST) $(TEST_ARGS)

test-slow: $(DEV)  ## run the tests that take minutes, and those of properties with many examples
	NMT_TEST_EXAMPLES=many $(BIN)/python -m pytest -m "slow or hypothesis" $(TEST_ARGS)

test-kernels: $(DEV)  ## run the GPU's kernels in Triton's interpreter, and compile them for an H100; installs 1 GB into build/triton
	$(BIN)/python -m pip install --quiet --upgrade --target build/triton --no-deps $(PIP_ARGS) triton
	PYTHONPATH=build/triton TRITON_INTERPRET=1 $(BIN)/python -m pytest tests/model/kernels/gpu $(TEST_ARGS)
	PYTHONPATH=build/triton $(BIN)/python -m pytest tests/model/kernels/gpu $(TEST_ARGS)

test-machines: $(DEV)  ## run the tests on emulated machines: no AVX-512, AVX2 or MKL, one core, four threads, under load (scripts/machines.py)
	$(BIN)/python scripts/machines.py $(MACHINES) -- $(TEST_ARGS)

coverage: $(DEV)  ## run the tests with coverage; fails below the floor in pyproject.toml
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=xml:build/coverage.xml $(TEST_ARGS)

torture: $(RUNTIME)  ## kill trainings at random moments, damage their files, and check that nothing is lost
	$(BIN)/python scripts/torture.py

guards: $(DEV)  ## remove one safeguard at a time and check that a test fails; writes the table in docs/reliability.md
	$(BIN)/python scripts/guards.py --write

sanitize: $(DEV)  ## test and fuzz the native decoder under the address and undefined-behavior sanitizers (GCC, Linux)
	$(BIN)/python scripts/sanitize.py $(SANITIZE_ARGS)

bench: $(RUNTIME)  ## time the start of the command line against that of torch (benchmarks/startup.py)
	$(BIN)/python benchmarks/startup.py

bench-train: $(RUNTIME)  ## compare training speed with peers, each in an environment of its own: docs/how-to/benchmark.md
	$(BIN)/python benchmarks/train.py $(BENCH_ARGS)

bench-translate: $(RUNTIME)  ## compare translation speed with peers: docs/how-to/benchmark.md
	$(BIN)/python benchmarks/translate.py $(BENCH_ARGS)

bench-compare: $(RUNTIME)  ## compare a new result with a stored one: make bench-compare BENCH_ARGS="NEW.json benchmarks/results/OLD.json"
	$(BIN)/python benchmarks/compare.py $(BENCH_ARGS)

docs: $(DOCS)  ## build the documentation site into build/site; warnings are errors
	$(BIN)/python scripts/docs/build.py

docs-serve: $(DOCS)  ## serve the documentation at http://127.0.0.1:8000, rebuilt at every change
	$(BIN)/python scripts/docs/build.py --serve

dist: $(DEV)  ## build wheel and sdist into dist/, install each in a fresh environment elsewhere, and use it there
	$(BIN)/python scripts/check_dist.py $(DIST_ARGS)

clean:  ## remove .venv, caches and build output; runs/ stays
	rm -rf nmt/decoding/native/*.so .venv build dist *.egg-info .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find nmt tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 14) or sys.exit("$(PYTHON) is Python %d.%d, and nmt needs 3.11 to 3.14: make setup PYTHON=python3.12" % v)'
	$(PYTHON) -m venv .venv

$(RUNTIME): pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	$(PIP_INSTALL) -e ".[train]"
	@touch $@

$(DEV): pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	$(PIP_INSTALL) -e ".[dev,ctranslate2]"
	@touch $(RUNTIME) $@

$(DOCS): pyproject.toml constraints.txt $(NATIVE) | $(BIN)/python
	$(PIP_INSTALL) -e ".[docs,train]"
	@touch $(RUNTIME) $@
