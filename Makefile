# Every command needed here. Each does its own set-up, in .venv, from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
C_SOURCES := $(wildcard csrc/*.c csrc/*.h csrc/build_ffi.py csrc/python/*.c)

C_FLAGS := -std=c11 -O2 -Wall -Wextra -Werror -pthread -Icsrc
CORE_SOURCES := $(filter-out csrc/_native.c, $(wildcard csrc/*.c))

.PHONY: setup demo test check prove soak bench bench-quick clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py $(C_SOURCES) tools/setup
	tools/setup $(PYTHON) $(VENV)
	@touch $@

demo: $(STAMP)
	@$(BIN)/shmcast demo $(ARGS)

# What the proof needs besides a compiler.
$(VENV)/.checkers: $(STAMP) tools/checkers
	tools/checkers
	@touch $@

test: check $(VENV)/.checkers
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(CC) $(C_FLAGS) -fsyntax-only $(CORE_SOURCES) bench/core/core_bench.c
	$(CC) $(C_FLAGS) -I$$($(BIN)/python -c 'import sysconfig as s; print(s.get_path("include"))') \
	    -fsyntax-only csrc/python/*.c

# Crash points, interleavings, models, sanitizers, fuzzers, campaigns; writes docs/proof.md.
prove: $(STAMP) $(VENV)/.checkers
	PYTHONPATH=tests $(BIN)/python -m prove.run $(ARGS)

# Minutes of random kills, restarts, stops and lost copies, for each protocol.
SOAK_SECONDS ?= 60
soak: $(STAMP)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --domain
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol crash
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol timing
	$(BIN)/python tests/soak/campaign.py --seconds $(SOAK_SECONDS) $(if $(SEED),--first $(SEED))

# Figures against peers, into bench/results/. Quiet machine, please; `bench-quick` is for a first look.
build/core_bench: bench/core/core_bench.c $(CORE_SOURCES) $(wildcard csrc/*.h)
	@mkdir -p build
	$(CC) $(C_FLAGS) -o $@ $< $(CORE_SOURCES) -lrt

$(VENV)/.peers: $(STAMP)
	-$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[bench]"
	@touch $@

bench: $(VENV)/.peers build/core_bench
	$(BIN)/python -m bench.run

bench-quick: $(VENV)/.peers build/core_bench
	$(BIN)/python -m bench.run --quick --out build/bench

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
