# make demo   trains CANO on plates with holes and draws its error (about five minutes after installation)
# make test   lint, types, import floors, tests, doctests, examples
# Both set up .venv on the first call; PYTHON=python3.12 chooses the interpreter; pip's own settings
# (PIP_INDEX_URL, PIP_FIND_LINKS, HTTPS_PROXY) choose where packages come from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-slow lint docs clean

help:
	@grep '^# make' Makefile | cut -c3-

demo: $(VENV)/.core
	$(BIN)/meshop demo

test: lint
	@echo "== tests, doctests and examples"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $${TEST_WORKERS:-2} --dist worksteal -m "not slow"

test-slow: $(VENV)/.dev
	@echo "== slow tests"
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	@echo "== lint, types and import floors"
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"meshop needs Python 3.11 or newer, {sys.executable} is {v.major}.{v.minor}: call make PYTHON=python3.11")'
	@echo "== making the virtual environment $(VENV)"
	$(PYTHON) -m venv $(VENV)

# A stamp says that an installation finished; a changed pin or dependency runs it again.
$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "== installing meshop and what it needs (a few minutes, once)"
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "== installing the tools for tests (a minute, once)"
	$(PIP) -e '.[dev,data,generate]'
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "== installing the tools for docs (once)"
	$(PIP) -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info docs/_build .mypy_cache .ruff_cache .pytest_cache
