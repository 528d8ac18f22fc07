# Every command needed here. Each does its own set-up, in .venv, from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
C_SOURCES := $(wildcard csrc/*.c csrc/*.h csrc/build_ffi.py)

.PHONY: setup demo test check clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py $(C_SOURCES) tools/setup
	tools/setup $(PYTHON) $(VENV)
	@touch $@

demo: $(STAMP)
	@$(BIN)/shmcast demo $(ARGS)

test: check
	$(BIN)/python -m pytest -q

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
