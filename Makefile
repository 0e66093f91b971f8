# Every target does its own set-up in .venv; Python 3.11 and pip are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COSMO := $(VENV)/.cosmo
WEB := $(VENV)/.web
TOOLS := $(VENV)/.tools

.PHONY: demo demo-cosmo paper serve test test-slow test-web lint types docs bench release-check clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gibbsdiff needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# torch first and alone: pip then keeps this build instead of looking for a newer one.
$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(COSMO): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[cosmo]'
	touch $@

$(WEB): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[web]'
	touch $@

$(TOOLS): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,train,bench,cosmo,cluster,sky,astro,web,web-test,release,docs,deepinv]'
	touch $@

demo: $(READY)
	OMP_WAIT_POLICY=passive $(BIN)/gibbsdiff demo

demo-cosmo: $(COSMO)
	OMP_WAIT_POLICY=passive $(BIN)/gibbsdiff cmb demo

paper: $(READY)
	OMP_WAIT_POLICY=passive $(BIN)/gibbsdiff paper

# A page in the browser; Ctrl-C ends it.
serve: $(WEB)
	OMP_WAIT_POLICY=passive $(BIN)/gibbsdiff serve

test: $(TOOLS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(TOOLS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# The page, by requests and in the system's Chromium.
test-web: $(TOOLS)
	.ci/chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 -m web tests/web

lint: $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(TOOLS)
	$(BIN)/mypy

# Version, changelog, citation; sdist and wheel; an empty environment, offline; the command in it.
release-check: $(TOOLS)
	OMP_WAIT_POLICY=passive $(BIN)/python .ci/release_check.py

# The site, in build/site; its two notebooks are executed. A warning is an error.
docs: $(TOOLS)
	OMP_NUM_THREADS=2 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site

bench: $(READY)
	$(BIN)/python benchmarks/phi_step.py
	$(BIN)/python benchmarks/import_time.py

clean:
	rm -rf $(VENV) build dist docs/generated .mypy_cache .ruff_cache .pytest_cache demo demo-cosmo paper
