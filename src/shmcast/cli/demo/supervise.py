"""``python -m shmcast.cli.demo.supervise FILE PARENT``: a cluster that ends with the demo."""

from __future__ import annotations

import sys

from shmcast.multicast.run.child import die_with
from shmcast.multicast.run.config import LOCAL, load
from shmcast.multicast.run.supervisor import Supervisor


def main() -> None:
    file, parent = sys.argv[1:]
    die_with(int(parent))()
    Supervisor(load(file), LOCAL, say=lambda name, text: print(f"{name}: {text}", flush=True)).run()


if __name__ == "__main__":
    main()
