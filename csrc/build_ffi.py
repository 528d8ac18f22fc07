"""Builds the extension module shmcast._native from csrc/. cffi reads the two api headers."""

import os
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
SOURCES = sorted(path.name for path in HERE.glob("*.c") if path.name != "_native.c")

# Errors for us (the Makefile sets it), not for users with a compiler that we have never seen.
WARNINGS = ["-Wall", "-Wextra", "-Werror"] if os.environ.get("SHMCAST_WERROR") else []

ffibuilder = FFI()
for header in ("api.h", "rt_api.h"):
    ffibuilder.cdef((HERE / header).read_text())
ffibuilder.set_source(
    "shmcast._native",
    '#include "api_types.h"\n#include "api.h"\n#include "rt_api.h"',
    sources=[f"csrc/{name}" for name in SOURCES],
    include_dirs=["csrc"],
    depends=[str(path) for path in sorted(HERE.glob("*.h"))],
    extra_compile_args=["-std=c11", "-O2", "-pthread", *WARNINGS],
    libraries=["rt", "pthread"],
    py_limited_api=True,
)
