# Every command needed here. Each does its own set-up, in .venv, from nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
C_SOURCES := $(wildcard csrc/*.c csrc/*.h csrc/build_ffi.py csrc/python/*.[ch])

C_FLAGS := -std=c11 -O2 -Wall -Wextra -Werror -pthread -Icsrc
CORE_SOURCES := $(filter-out csrc/_native.c, $(wildcard csrc/*.c))

.PHONY: setup demo test check check-aarch64 prove soak bench bench-quick docs newcomer clean

setup: $(STAMP) $(VENV)/.pipeline

$(STAMP): pyproject.toml setup.py $(C_SOURCES) tools/setup
	tools/setup $(PYTHON) $(VENV)
	@touch $@

# Spark and a Java runtime: half a gigabyte.
$(VENV)/.pipeline: $(STAMP) tools/extra
	@echo "installing Spark and Java into $(VENV), once: about half a gigabyte"
	tools/extra $(VENV) pipeline
	@touch $@

# Without Spark, as on a machine that cannot fetch it, the demo verifies in memory and says so.
demo: $(STAMP)
	@$(MAKE) --no-print-directory $(VENV)/.pipeline || echo "no Spark: see above; going on without"
	@$(BIN)/shmcast demo $(ARGS)

# What tests and proof need besides a compiler: chromium is the largest, 120 MB.
$(VENV)/.checkers: $(STAMP) tools/checkers
	tools/checkers
	@touch $@

test: check $(VENV)/.checkers $(VENV)/.pipeline $(VENV)/.docs
	$(BIN)/python -m pytest -q -n 3 --dist loadfile

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# Compiled, not only parsed: some warnings need the optimiser.
	set -e; include=$$($(BIN)/python -c 'import sysconfig as s; print(s.get_path("include"))'); \
	for source in $(CORE_SOURCES) bench/core/core_bench.c csrc/python/*.c; do \
	    $(CC) $(C_FLAGS) -I$$include -c -o /dev/null $$source; \
	done

# The core's inner functions as an aarch64 machine runs them: not a part of `make test`.
AARCH64_CC ?= aarch64-linux-gnu-gcc
AARCH64_RUN ?= $(firstword $(shell command -v qemu-aarch64 qemu-aarch64-static 2>/dev/null))
check-aarch64:
	@command -v $(AARCH64_CC) >/dev/null && test -n "$(AARCH64_RUN)" || { \
	    echo "skipped: no $(AARCH64_CC) or no qemu-aarch64 (Debian: gcc-aarch64-linux-gnu qemu-user)"; exit 0; }; \
	set -e; mkdir -p build/aarch64; \
	$(AARCH64_CC) $(C_FLAGS) -static -o build/aarch64/test_core tests/c/test_core.c $(CORE_SOURCES) -lrt; \
	for name in $$($(AARCH64_RUN) build/aarch64/test_core); do \
	    echo "$$name"; $(AARCH64_RUN) build/aarch64/test_core $$name; \
	done

# Crash points, interleavings, models, sanitizers, fuzzers, campaigns; writes docs/proof.md.
prove: $(STAMP) $(VENV)/.checkers
	PYTHONPATH=tests $(BIN)/python -m prove.run $(ARGS)

# Minutes of random kills, restarts, stops and lost copies, for each protocol; then the checkers in
# memory and those in Spark on twice DIFFERENTIAL_RUNS traces.
SOAK_SECONDS ?= 60
DIFFERENTIAL_RUNS ?= 2000
soak: $(STAMP) $(VENV)/.pipeline
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1)
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --domain
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol crash
	$(BIN)/python tests/soak/soak.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --protocol timing
	$(BIN)/python tests/cluster/chaos.py --seconds $(SOAK_SECONDS) --seed $(or $(SEED),1) --engine wbcast
	$(BIN)/python tests/soak/campaign.py --seconds $(SOAK_SECONDS) $(if $(SEED),--first $(SEED))
	DIFFERENTIAL_RUNS=$(DIFFERENTIAL_RUNS) DIFFERENTIAL_EVERYTHING=1 $(if $(SEED),DIFFERENTIAL_FIRST=$(SEED)) \
	    $(BIN)/python -m pytest -q -o timeout=0 tests/pipeline/test_differential.py

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

# The documentation as a site: build/docs/index.html.
$(VENV)/.docs: $(STAMP) tools/extra
	tools/extra $(VENV) docs
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# What a newcomer does: a fresh clone, `make demo`, the first program of the tutorial. Takes minutes.
newcomer:
	tests/newcomer.sh $(PYTHON)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
