"""Why a crash point is reached by no script, where that is known.

Sites are told by the function they stand in, so that a moved line needs no change here.
"""

from __future__ import annotations

import functools
import re

from prove.mutants import CSRC

REASONS = {
    ("clock.c", "clock_set_fault"): "private: the skewed clock of a test",
    ("stats.c", "sc_fault_poison"): "a fault for tests; this harness poisons from outside",
    ("sys.c", "read_stat"): "private: a read of /proc",
    ("sys.c", "sys_boot_id"): "private: a read of /proc",
    ("segment.c", "map_range"): "only when the table of mappings is full",
    ("segment.c", "segment_create"): "only when /dev/shm is full or the group is not ours",
    ("segment.c", "segment_give_to"): "only when somebody else replaces an owner's copy; nameless",
    ("segment.c", "segment_hold_name"): "only when two clear away the same leftovers at once",
    ("segment.c", "segment_open"): "only on a damaged segment, which is then left as it was",
    ("overrun.c", "overrun_note"): "private: breaches are kept in the handle",
    ("receive_timing.c", "decide_every_poll"): "private: an error for the application",
    ("turn.c", "turn_wait"): "private: two threads with one handle",
    (
        "view.c",
        "spread",
    ): "only when a copy shows what nobody decided, as fuzzers write",
    ("view.c", "view_fail"): "private: what this process knows of a copy",
    ("view.c", "view_doubt"): "private: what this process knows of a copy",
    ("domain.c", "domain_inspect"): "private: what this process knows of a copy",
    ("mailbox.c", "map_everywhere"): "private: this process's mappings",
    ("domain.c", "complete_birth"): "only after a creator that died between two copies; "
    "the survivors of `create` pass it",
}


@functools.cache
def _functions(name: str) -> list[tuple[int, str]]:
    """First lines and names of the functions of a file."""
    found = []
    for number, line in enumerate((CSRC / name).read_text().splitlines(), 1):
        head = re.match(r"(?!static const)[a-z][\w \*]*?(\w+)\((?!.*;)", line)
        if head:
            found.append((number, head[1]))
    return found


def function_of(site: str) -> tuple[str, str]:
    """("agree.c", "carry") of "csrc/agree.c:43 cas"."""
    match = re.fullmatch(r"csrc/(\S+):(\d+) .*", site)
    assert match, site
    before = [name for number, name in _functions(match[1]) if number <= int(match[2])]
    return match[1], before[-1] if before else ""


def reason(site: str) -> str:
    if site.split(" ")[1] in ("count-up", "count-down", "exchange"):
        return "private: a counter of one process, as atomics.h says"
    return REASONS.get(function_of(site), "")
