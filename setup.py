"""What pyproject.toml cannot say: the C extension, and which room is which package.

The rooms stand at the top level and have no ``__init__.py``: with one, Python started at the
repository's root would import ``mailbox/`` instead of the standard library's ``mailbox``.
"""

from pathlib import Path

from setuptools import Extension, find_namespace_packages, find_packages, setup

ROOT = Path(__file__).parent
ROOMS = [
    room for room in ("mailbox", "multicast", "realtime", "pipeline") if (ROOT / room).is_dir()
]


def room_packages(room: str) -> list[str]:
    inner = find_namespace_packages(str(ROOT / room))
    return [f"shmcast.{room}", *(f"shmcast.{room}.{package}" for package in inner)]


setup(
    packages=[
        *find_packages("src"),
        *(package for room in ROOMS for package in room_packages(room)),
    ],
    package_dir={"": "src", **{f"shmcast.{room}": room for room in ROOMS}},
    package_data={
        "shmcast": ["py.typed", "*.pyi"],
        "shmcast.pipeline.report": ["*.j2", "*.css"],
    },
    cffi_modules=["csrc/build_ffi.py:ffibuilder"],
    ext_modules=[
        Extension(
            "shmcast._fast",
            sources=[
                f"csrc/python/{name}.c"
                for name in ("fast", "ends", "sending", "receiving", "lending")
            ],
            depends=["csrc/api.h", "csrc/api_types.h", "csrc/python/fast.h"],
            extra_compile_args=["-std=c11", "-O2"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
