"""One Spark session for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from shmcast.pipeline.session import JAVA_OPTIONS, SHORT_LIVED, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")
    scratch = str(tmp_path_factory.mktemp("spark"))
    conf = {"spark.sql.shuffle.partitions": "2", "spark.local.dir": scratch}
    conf[JAVA_OPTIONS] = SHORT_LIVED[JAVA_OPTIONS]
    with spark_session("tests", conf=conf) as session:
        yield session
