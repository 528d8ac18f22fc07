"""One Spark session: quiet, on this machine only, UTC, nothing left in the working directory.

This is the only place that starts Spark. pyspark is imported when a session is asked for, so that
commands which turn out not to need one do not pay for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from shmcast.pipeline.java import launch_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_CONF: Mapping[str, str] = MappingProxyType({})
_MASTER = re.compile(
    r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|"
    r"spark://[^,:/\s]+:\d{1,5}(,[^,:/\s]+:\d{1,5})*|yarn|k8s://\S+"
)
ANSWER_S = 5.0  # for a master to take a connection
_PREAMBLE = "An error occurred while calling"  # py4j's; the reason comes next
_CLASS = re.compile(r"^pyspark\.[\w.]+: ")  # of an exception
_TRACEBACK = "Traceback (most recent call last):"  # of a function of ours that Spark called
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# For a session of a minute over little data: a compiler that starts at once beats one that
# compiles well, and a query is run in less time than it takes to compile it.
SHORT_LIVED: Mapping[str, str] = MappingProxyType(
    {
        JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
    }
)

# Errors reach the caller as exceptions; raise `spark.log.level` to see Spark's own words as well.
_LOGGING = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # A run is hundreds of small files: asking for them one by one beats a job that does.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
        "spark.sql.catalogImplementation": "in-memory",
        # Made only if somebody creates a table; then not in the working directory.
        "spark.sql.warehouse.dir": str(
            Path(tempfile.gettempdir()) / f"shmcast-warehouse-{os.getpid()}"
        ),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def session(
    app: str, *, master: str = "local[2]", conf: Mapping[str, str] = _NO_CONF
) -> SparkSession:
    """The session of this process: a second call gives the first one's, with `conf` added.

    `conf` wins over the defaults; Java options are added to them.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise FileNotFoundError(
            f"this needs Spark, and Python has no {error.name}: pip install 'shmcast[pipeline]'"
        ) from None
    check_master(master)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with launch_home() as home:
        logging = home / "log4j2.properties"
        logging.write_text(_LOGGING)
        settings = {**_settings(master), **conf}
        settings[JAVA_OPTIONS] = (
            f"-Dlog4j2.configurationFile={logging.as_uri()} {conf.get(JAVA_OPTIONS, '')}".strip()
        )
        builder = SparkSession.builder.appName(app).master(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        try:
            return builder.getOrCreate()
        except Exception as error:
            told = plain(error)
            if told is None:
                raise
            raise FileNotFoundError(f"Spark could not be started at {master}: {told}") from None


def check_master(master: str) -> None:
    """Spark itself takes a minute to say that nobody is there, and says it in a stack trace."""
    if not _MASTER.fullmatch(master):
        raise ValueError(
            f"no Spark master is called {master!r}: local[2] for two cores of this machine, or "
            "spark://HOST:PORT, yarn, k8s://…"
        )
    if not master.startswith("spark://"):
        return
    places = master.removeprefix("spark://").split(",")
    for place in places:
        host, _, port = place.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), ANSWER_S):
            return
    raise FileNotFoundError(
        f"no Spark master answers at {master}: start one, or leave --master out to use this machine"
    )


def plain(error: Exception) -> str | None:
    """What Spark says, in one sentence instead of a stack trace of Java's, or of Python's that came
    back through it; nothing of other errors."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    _, _, reason = str(error).rpartition(_TRACEBACK)
    lines = [line for line in reason.splitlines() if line.strip()]
    if reason != str(error):
        lines = [line for line in lines if not line.startswith(" ")]  # frames
    said = [_CLASS.sub("", line.strip()) for line in lines if not _is_noise(line.strip())]
    return (said[0] if said else "no reason given")[:300]


def _is_noise(line: str) -> bool:
    return line.startswith(("at ", "...")) or _PREAMBLE in line


@contextlib.contextmanager
def spark_session(
    app: str, *, master: str = "local[2]", conf: Mapping[str, str] = _NO_CONF
) -> Iterator[SparkSession]:
    """A session for one block; stopped at its end. Java itself ends with this process."""
    spark = session(app, master=master, conf=conf)
    try:
        yield spark
    except KeyboardInterrupt:
        # Java may be in the middle of an answer, so nothing more can be asked of it: it ends with
        # this process, which is about to end.
        raise
    except BaseException:
        spark.stop()
        raise
    spark.stop()
