"""`shmcast.Cluster`: groups of replicas, as cluster.toml has them."""

from __future__ import annotations

import os
from typing import Self

from shmcast.multicast.run import api, eager
from shmcast.multicast.run.client import Client
from shmcast.multicast.run.config import ClusterConfig, load
from shmcast.multicast.run.node import Node


class Cluster:
    """Groups of replicas that deliver the same messages in the same order, on one host or several.

    Every process of a cluster loads the same cluster.toml, and becomes one of its replicas, or a
    client. `shmcast up` starts replicas as processes of their own.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads cluster.toml. ConfigError names the line of a mistake, and what to write there."""
        return cls(load(path))

    def node(self, name: str, state: api.State | None = None) -> api.Node:
        """This process becomes the replica `name`, as in ``"g1.a"``. `state`: what a replica that
        comes back takes over from another one, and hands to others."""
        if self.config.engine == "eager":
            return eager.node(self.config, name, state)
        return Node(self.config, name, state)

    def client(self) -> api.Client:
        """Multicasts to groups, from a host that has a replica of one of them."""
        if self.config.engine == "eager":
            return eager.client(self.config)
        return Client(self.config)
