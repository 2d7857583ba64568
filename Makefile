# Two commands: `make live` runs a room on this machine, `make test` runs the tests.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
LIVE_ARGS ?=

.PHONY: live test check clean

live: $(VENV)/.live
	$(BIN)/livery live $(LIVE_ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

$(VENV)/.live: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install -e . --group dev
	@touch $@

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "livery needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "No virtual environment could be made. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --upgrade "pip>=25.1"
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
