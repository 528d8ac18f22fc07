"""Who takes part: leaders that do not stay, members that were left behind, members that crashed.

The paper is crash-stop. Here a crashed member comes back without memory, and with it went its
votes: it may have promised a ballot or accepted a timestamp that a quorum was built on. So it
neither votes nor acknowledges until a ballot is led that began after its return. It asks for one
(Rejoin); the leader runs recover() once more, gathers its quorum among the *others*, and the
NEW_STATE of that ballot is the state transfer. Whatever quorum the old life belonged to shares a
member with those others, and that member reports it.

One thing could still go wrong: a promise of the old life (NEWLEADER_ACK) that is under way. So
every vote carries the incarnations of the group as the voter knows them, NEWLEADER spreads them,
and a vote from a life that another voter knows to be over is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.core import GroupId, MessageId, ProcessId, Timestamp
from shmcast.multicast.protocols.wbcast_session import Sessions
from shmcast.multicast.protocols.wbcast_wire import Lives, NewLeaderAck


@dataclass(frozen=True, slots=True)
class Past:
    """What a state no longer shows of the messages that were collected."""

    delivered: Timestamp  # by its owner; a member without memory begins behind it
    dropped: Timestamp  # of what lies below, some is gone
    sessions: Sessions
    stable: dict[GroupId, Timestamp]


@dataclass(frozen=True, slots=True)
class Missed:
    """To the application of a member that was left behind: some of what was delivered up to
    `gts` will never come; take over another member's state as of `gts`."""

    gts: Timestamp


def has_collected(vote: NewLeaderAck, mid: MessageId) -> bool:
    """What a voter has delivered and holds no longer was collected: a ballot that began since
    would have brought it back."""
    return (
        isinstance(vote.past, Past)
        and mid not in vote.snapshot.phase
        and vote.past.sessions.is_done(mid)
    )


def newest(known: Lives, other: Lives) -> Lives:
    return tuple(map(max, known, other))


def of_living(
    votes: dict[ProcessId, NewLeaderAck], peers: tuple[ProcessId, ...], known: Lives
) -> list[NewLeaderAck]:
    """Votes of lives that no voter knows to be over."""
    for vote in votes.values():
        known = newest(known, vote.lives)
    rank = {p: i for i, p in enumerate(peers)}
    return [v for p, v in votes.items() if v.lives[rank[p]] == known[rank[p]]]
