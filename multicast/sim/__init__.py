"""The simulator's public name: `from shmcast.multicast.sim import simulate`. Only the room itself
must have no `__init__.py`; see setup.py."""

from shmcast.multicast.sim.api import simulate as simulate
