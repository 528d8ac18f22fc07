"""Cycles in a graph of messages, in linear time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node")


def find_cycle(edges: Mapping[Node, Sequence[Node]]) -> list[Node] | None:
    """One cycle as a list of nodes, each pointing at the next and the last at the first."""
    finished: set[Node] = set()
    for root in edges:
        if root in finished:
            continue
        path: list[Node] = [root]
        on_path: dict[Node, int] = {root: 0}
        iterators = [iter(edges.get(root, ()))]
        while path:
            for node in iterators[-1]:
                if node in on_path:
                    return path[on_path[node] :]
                if node not in finished:
                    on_path[node] = len(path)
                    path.append(node)
                    iterators.append(iter(edges.get(node, ())))
                    break
            else:
                done = path.pop()
                iterators.pop()
                del on_path[done]
                finished.add(done)
    return None
