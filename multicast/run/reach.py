"""Whether a replica can reach enough of the others, by what it would have to do without. Pure.

One that cannot holds still: it fires no timer of its protocol and takes no request, as if it were
slow, which no protocol minds. So a host that is cut off does not gather retries, and candidacies
with ever higher ballots, which all arrive when the cut is healed.
"""

from __future__ import annotations

from collections.abc import Collection

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.topology import Topology


def leaves_majorities(topology: Topology, lost: Collection[ProcessId]) -> bool:
    """Does every group keep a majority without these?"""
    return all(
        sum(member not in lost for member in members) >= majority(len(members))
        for members in topology.groups
    )
