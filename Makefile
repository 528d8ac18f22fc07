# Every command needed here. Each does its own set-up, in .venv, from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
C_SOURCES := $(wildcard csrc/*.c csrc/*.h csrc/build_ffi.py)

.PHONY: setup demo test check bench bench-quick clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py $(C_SOURCES) tools/setup
	tools/setup $(PYTHON) $(VENV)
	@touch $@

test: check
	$(BIN)/python -m pytest -q

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Figures against peers, into bench/results/. Quiet machine, please; `bench-quick` is for a first look.
CORE_SOURCES := $(filter-out csrc/_native.c, $(wildcard csrc/*.c))

build/core_bench: bench/core/core_bench.c $(CORE_SOURCES) $(wildcard csrc/*.h)
	@mkdir -p build
	$(CC) -std=c11 -O2 -Wall -Wextra -Werror -pthread -Icsrc -o $@ $< $(CORE_SOURCES) -lrt

$(VENV)/.peers: $(STAMP)
	-$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[bench]"
	@touch $@

bench: $(VENV)/.peers build/core_bench
	$(BIN)/python -m bench.run

bench-quick: $(VENV)/.peers build/core_bench
	$(BIN)/python -m bench.run --quick --out build/bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
