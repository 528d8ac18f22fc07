# Every command needed here. Each does its own set-up, in .venv, from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
C_SOURCES := $(wildcard csrc/*.c csrc/*.h csrc/build_ffi.py)

C_FLAGS := -std=c11 -Wall -Wextra -Werror -pthread -Icsrc

.PHONY: setup demo test check soak bench clean

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
	$(CC) $(C_FLAGS) -O2 -fsyntax-only $(filter %.c,$(C_SOURCES)) bench/core/core_bench.c

# Minutes of random kills, restarts, stops and lost copies, for each protocol.
SOAK_SECONDS ?= 60
soak: $(STAMP)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --domain
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol crash
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol timing

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
