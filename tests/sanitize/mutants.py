"""Broken variants of the core, one or more per tool: a tool that never spoke proves nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prove.mutants import Edit, Mutant
from sanitize.runs import Outcome


@dataclass(frozen=True, slots=True)
class Case:
    mutant: Mutant
    tool: str  # asan, tsan, valgrind, or fuzz
    program: str  # test_core, stress, fuzz_open, fuzz_read
    arguments: tuple[str, ...] = ()
    short: bool = False  # also in the short form


# What a tool says of each property. Anything else, and a deadline that passed, catches no mutant.
WRONG = r"does not hold: (wrong delivery|a receiver)"
TELLS = {
    "no leak": r"detected memory leaks|does not hold: .*(left|open|leak)",
    "no data race": r"ThreadSanitizer: data race",
    "nothing uninitialised is used": r"uninitialised",
    "a damaged payload is noticed": WRONG,
    "memory safety": r"ERROR: AddressSanitizer|runtime error: ",
    "bounded time": r"does not hold: hang|libFuzzer: timeout",
}


def told(breaks: str, outcome: Outcome) -> bool:
    """Did the tool name the property that the mutant breaks?"""
    failed = not outcome.passed and not outcome.timed_out
    return failed and re.search(TELLS[breaks], outcome.output) is not None


def _one(name: str, breaks: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, breaks, (Edit(file, old, new),))


CASES = (
    Case(
        _one(
            "receiver-never-freed",
            "no leak",
            "join.c",
            "        sc_receiver_close(r);\n    free(r);\n",
            "        sc_receiver_close(r);\n",
        ),
        "asan",
        "stress",
        ("threads_inside_a_handle_are_sent_away_when_it_is_closed",),
        short=True,
    ),
    Case(
        _one(
            "count-of-members-read-without-atomics",
            "no data race",
            "lane.c",
            "uint64_t members = LOAD_ACQUIRE(&mailbox_head(view->copy[0], box)->members);",
            "uint64_t members = *(uint64_t *)&mailbox_head(view->copy[0], box)->members;",
        ),
        "tsan",
        "stress",
        ("eager_traffic_survives_failing_copies",),
        short=True,
    ),
    Case(
        _one(
            "header-word-left-unset",
            "nothing uninitialised is used",
            "send.c",
            "    header->op_or_addressed = extra;\n",
            "    (void)extra;\n",
        ),
        "valgrind",
        "stress",
        ("threads_inside_a_handle_are_sent_away_when_it_is_closed", "5"),
    ),
    Case(
        _one(
            "seals-not-checked",
            "bounded time",
            "seal.h",
            "    return (word & 0xffff) == seal_check(sealed_value(word));",
            "    return word != 0;",
        ),
        "fuzz",
        "fuzz_read",
    ),
    Case(
        _one(
            "header-not-checked",
            "bounded time",
            "lane.c",
            "        header->header_crc == slot_header_crc(header))",
            "        header->header_crc + 1)",
        ),
        "fuzz",
        "fuzz_read",
    ),
    Case(
        _one(
            "payload-not-checked",
            "a damaged payload is noticed",
            "receive.c",
            "        crc32c(0, to, head->bytes) != head->payload_crc)\n",
            "        crc32c(0, to, 0) != 0)\n",
        ),
        "fuzz",
        "fuzz_read",
    ),
    Case(
        _one(
            "message-length-not-checked",
            "memory safety",
            "lane.c",
            "header->bytes <= d->boxes[box].params.message_bytes",
            "d->boxes[box].params.message_bytes > 0",
        ),
        "fuzz",
        "fuzz_read",
    ),
    Case(
        _one(
            "file-left-open-after-a-bad-header",
            "no leak",
            "segment.c",
            "    if (rc) {\n        close(fd);\n        memset(out, 0, sizeof *out);\n    }\n",
            "    if (rc)\n        memset(out, 0, sizeof *out);\n",
        ),
        "fuzz",
        "fuzz_open",
        short=True,
    ),
    Case(
        _one(
            "deadline-not-looked-at",
            "bounded time",
            "receive.c",
            "        if (r->now >= deadline)\n            return SC_TIMEOUT;\n",
            "",
        ),
        "fuzz",
        "fuzz_read",
    ),
)
