"""Which request of each client was delivered last: a function of the order alone, so it is the same
at every replica of a group.

A client asks for its next request only when the last one is answered, so a group delivers its
requests in the order of their numbers. One that is asked for twice may be ordered twice: the second
one has a number that is not new, and is dropped, in each of its groups alike. A client that
`CLIENTS_MAX` others have come after is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict

from shmcast.multicast.run.api import Place

CLIENTS_MAX = 65_536


class Sessions:
    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[int, Place]] = OrderedDict()  # longest silent one first

    def is_first(self, client: int, seq: int, place: Place) -> bool:
        """Called for every ordered request, in order. False: it was delivered before."""
        last = self._last.get(client)
        if last is not None and seq <= last[0]:
            return False
        self._last[client] = (seq, place)
        if last is not None:
            self._last.move_to_end(client)
        elif len(self._last) > CLIENTS_MAX:
            self._last.popitem(last=False)
        return True

    def place(self, client: int, seq: int) -> Place | None:
        """Where it was delivered, if it was the last one of its client."""
        last = self._last.get(client)
        return last[1] if last is not None and last[0] == seq else None

    def rows(self) -> list[tuple[int, int, int, int]]:
        """For a replica that comes back."""
        return [(client, seq, *place) for client, (seq, place) in self._last.items()]

    @classmethod
    def of_rows(cls, rows: list[tuple[int, int, int, int]]) -> Sessions:
        found = cls()
        for client, seq, time, tie in rows:
            found._last[client] = (seq, Place(time, tie))
        return found
