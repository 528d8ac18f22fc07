"""Strongly connected components of a graph of messages, without trusting any timestamp.

Whatever number f each message is given, a cycle contains an edge u → v with f(u) ≥ f(v), and lies
inside one merged union of the intervals [f(v), f(u)] of such edges. A run in order has none, and
nothing is left to do; else only the edges inside those intervals are looked at, per union.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EDGE = ["run", "s1", "n1", "s2", "n2"]
_FOUND = "run string, component long, s int, n long, place int"


def components(edges: DataFrame, potential: DataFrame) -> DataFrame:
    """run, component, s, n, place: the messages of all components of more than one; `place`
    numbers the messages of one cycle in each, and is null for the others."""
    edges = edges.select(*EDGE).distinct()
    for end in ("1", "2"):
        named = potential.withColumnsRenamed({"s": f"s{end}", "n": f"n{end}", "f": f"f{end}"})
        edges = edges.join(named, ["run", f"s{end}", f"n{end}"])
    backwards = edges.where("f1 >= f2").select(
        "run", F.col("f2").alias("low"), F.col("f1").alias("high")
    )
    segments = F.broadcast(_merged(backwards)).alias("segment")
    inside = edges.alias("edge").join(
        segments,
        (F.col("edge.run") == F.col("segment.run"))
        & F.col("f1").between(F.col("low"), F.col("high"))
        & F.col("f2").between(F.col("low"), F.col("high")),
    )
    rows = inside.select("edge.run", "low", "s1", "n1", "s2", "n2")
    return rows.groupBy("run", "low").applyInArrow(_strong, schema=_FOUND)


def _merged(intervals: DataFrame) -> DataFrame:
    """Disjoint unions of overlapping intervals."""
    before = Window.partitionBy("run").orderBy("low", "high").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    upto = Window.partitionBy("run").orderBy("low", "high")
    starts = F.coalesce(F.max("high").over(before) < F.col("low"), F.lit(True))
    marked = intervals.distinct().withColumn("starts", starts.cast("int"))
    numbered = marked.withColumn("segment", F.sum("starts").over(upto))
    return numbered.groupBy("run", "segment").agg(
        F.min("low").alias("low"), F.max("high").alias("high")
    )


def _strong(table: Any) -> Any:
    names, ends = numbered(table)
    graph = _graph(len(names), ends)
    _, label = strong_labels(len(names), ends)
    count = np.bincount(label)
    nodes = np.flatnonzero(count[label] > 1)
    place: dict[int, int] = {}
    _, firsts = np.unique(label[nodes], return_index=True)
    for start in nodes[firsts].tolist():
        place.update((node, at) for at, node in enumerate(_cycle(graph, label, start)))
    run = table.column("run")[0].as_py()
    low = table.column("low")[0].as_py()
    return pa.table(
        {
            "run": pa.array([run] * len(nodes), pa.string()),
            "component": pa.array([hash((low, int(label[i]))) for i in nodes], pa.int64()),
            "s": pa.array([names[i][0] for i in nodes], pa.int32()),
            "n": pa.array([names[i][1] for i in nodes], pa.int64()),
            "place": pa.array([place.get(int(i)) for i in nodes], pa.int32()),
        }
    )


def _graph(size: int, ends: tuple[Any, Any]) -> Any:
    from scipy.sparse import csr_matrix

    ones = np.ones(len(ends[0]), np.int8)
    return csr_matrix((ones, ends), shape=(size, size))


def strong_labels(size: int, ends: tuple[Any, Any]) -> tuple[int, Any]:
    """How many components there are, and which one each node is in."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(_graph(size, ends), directed=True, connection="strong")
    return int(count), label


def numbered(table: Any) -> tuple[list[tuple[int, int]], tuple[Any, Any]]:
    """The messages of s1.n1 → s2.n2, and both ends of each row by their place among them."""
    columns = [table.column(name).to_numpy() for name in ("s1", "n1", "s2", "n2")]
    pairs = np.concatenate([np.column_stack(columns[:2]), np.column_stack(columns[2:])])
    names, index = np.unique(pairs, axis=0, return_inverse=True)
    index = index.reshape(-1)
    half = len(index) // 2
    return [(int(s), int(n)) for s, n in names], (index[:half], index[half:])


def _cycle(graph: Any, label: Any, start: int) -> list[int]:
    """A shortest cycle through `start`, inside its component."""
    before: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for after in graph.indices[graph.indptr[node] : graph.indptr[node + 1]]:
            if after == start:
                path = [node]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if label[after] == label[start] and after not in before:
                before[int(after)] = node
                queue.append(int(after))
    raise AssertionError("a component of more than one node has a cycle through each")
