"""Builds the extension module shmcast._native from csrc/. cffi reads api.h as it is."""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).parent
SOURCES = sorted(path.name for path in HERE.glob("*.c") if path.name != "_native.c")

ffibuilder = FFI()
ffibuilder.cdef((HERE / "api.h").read_text())
ffibuilder.set_source(
    "shmcast._native",
    '#include "api_types.h"\n#include "api.h"',
    sources=[f"csrc/{name}" for name in SOURCES],
    include_dirs=["csrc"],
    depends=[str(path) for path in sorted(HERE.glob("*.h"))],
    extra_compile_args=[
        "-std=c11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-pthread",
    ],
    libraries=["rt", "pthread"],
    py_limited_api=True,
)
