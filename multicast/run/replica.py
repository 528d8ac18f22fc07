"""`python -m shmcast.multicast.run.replica CONFIG NAME`: one replica as a process of its own.

Its application is `app` of cluster.toml, "module:name", looked for beside the file first. A
function is called with the node, and takes deliveries itself. A class is made without arguments;
its `deliver(delivery)` is called for each; with `snapshot()` and `restore(bytes)` a replica that
comes back takes over the state of another; `close()`, if there is one, is called at the end.
Without an application deliveries are taken and dropped. SIGTERM ends it in order.
"""

from __future__ import annotations

import importlib
import inspect
import signal
import sys
from collections.abc import Callable
from typing import Any

from shmcast.errors import ConfigError, ShmcastError
from shmcast.multicast.run import api, eager
from shmcast.multicast.run.config import ClusterConfig, load
from shmcast.multicast.run.node import Node

EXIT_AGAIN = 75  # EX_TEMPFAIL: start it again, it comes back as a new life


def application(config: ClusterConfig, name: str) -> Any:
    """What cluster.toml names: a function, an object made of its class, or None."""
    app = config.replica(name).app
    if app is None:
        return None
    module, _, attribute = app.partition(":")
    sys.path.insert(0, str(config.path.parent))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{config.path}: app = {app!r}: {error}; put {module}.py beside the file, or install it"
        ) from error
    return found() if inspect.isclass(found) else found


def state_of(app: Any) -> api.State | None:
    return app if hasattr(app, "snapshot") and hasattr(app, "restore") else None


def consumer_of(app: Any) -> Callable[[api.Node], object]:
    if app is None:
        return _drop
    if not hasattr(app, "deliver"):
        return app  # type: ignore[no-any-return]

    def deliver_all(node: api.Node) -> None:
        try:
            for delivery in node.deliveries():
                app.deliver(delivery)
        finally:
            if hasattr(app, "close"):
                app.close()

    return deliver_all


def _drop(node: api.Node) -> None:
    for _ in node.deliveries():
        pass


def run(config: ClusterConfig, name: str) -> None:
    app = application(config, name)
    state = state_of(app)
    node: Node | eager.EagerNode = (
        eager.node(config, name, state)
        if config.engine == "eager"
        else Node(config, name, state, keep=app is not None)
    )
    with node:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: node.stop())
        consumer_of(app)(node)
        _drop(node)  # it stays a member, whatever its application does


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: python -m shmcast.multicast.run.replica CONFIG NAME", file=sys.stderr)
        return 2
    try:
        run(load(sys.argv[1]), sys.argv[2])
    except (ShmcastError, OSError) as error:
        print(f"{sys.argv[2]}: {error}", file=sys.stderr)
        return EXIT_AGAIN
    return 0


if __name__ == "__main__":
    sys.exit(main())
