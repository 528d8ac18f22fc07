"""Broken variants of csrc/, each with the scenario in which the checker must notice it."""
# ruff: noqa: E501 (the edits quote lines of C as they are)

from __future__ import annotations

from dataclasses import dataclass

from interleave.cases import Case
from prove.mutants import Edit, Mutant


@dataclass(frozen=True, slots=True)
class Hunted:
    mutant: Mutant
    scenario: str
    options: tuple[str, ...] = ()
    short: bool = False  # part of the short form

    @property
    def case(self) -> Case:
        """What is searched at random, for no other property than the mutant's."""
        options = (*self.options, f"property={self.mutant.breaks}")
        return Case(self.scenario, options, how="random")


def hunted(
    name: str, breaks: str, scenario: str, *edits: Edit, options: str = "", short: bool = False
) -> Hunted:
    return Hunted(Mutant(name, breaks, edits), scenario, tuple(options.split()), short)


HUNTED = [
    hunted(
        "no-adoption-in-the-walk", "ordering", "eager-late-2s",
        Edit("agree.c",
             "            *estimate = sealed_value(found);\n            return 0;",
             "            if (ahead)\n                *estimate = sealed_value(found);\n            return 0;"),
        short=True,
    ),
    hunted(
        "clock-read-before-the-intent", "ordering", "eager-2s1r",
        Edit("send_eager.c",
             "    int rc = payloads_write(s, op);\n    if (rc == 0)\n",
             "    int rc = payloads_write(s, op);\n    *ts = stamp(s, op->count);\n"
             "    if (rc == 0)\n"),
        Edit("send_eager.c", "    *ts = stamp(s, op->count);\n    write_headers", "    write_headers"),
        short=True,
    ),
    hunted(
        "receiver-looks-before-its-clock", "ordering", "eager-2s1r",
        Edit("receive_eager.c",
             "    r->wake_at = UINT64_MAX;\n    if (best < 0)\n        return 0;\n    if (r->lanes[best]",
             "    r->now = clock_before_loads();\n    if (bound == t0 - epsilon)\n"
             "        bound = clock_from(r->now) - epsilon;\n"
             "    r->wake_at = UINT64_MAX;\n    if (best < 0)\n        return 0;\n    if (r->lanes[best]"),
        short=True,
    ),
    hunted(
        "flags-before-the-walk", "validity", "eager-late",
        Edit("send_eager.c", "    if ((rc = decide(s, &decided)))",
             "    set_flags(s, op);\n    if ((rc = decide(s, &decided)))"),
    ),
    hunted(
        "flags-before-the-last-copy-is-written", "consensus", "eager-crash-copy",
        Edit("send_eager.c",
             "            for (int c = 0; c < s->view.count; c++)\n                header_write",
             "            for (int c = 0; c < 1; c++)\n                header_write"),
        Edit("send_eager.c", "        set_flags(s, op);\n        for",
             "        set_flags(s, op);\n"
             "        struct slot header;\n"
             "        header_make(s, op, 0, 0, *ts, s->op, &header);\n"
             "        for (int c = 1; c < s->view.count; c++)\n"
             "            header_write(s, 0, s->view.copy[c], &header);\n"
             "        for"),
    ),
    hunted(
        "no-fence-between-intent-and-clock", "ordering", "eager-2s1r",
        Edit("send_eager.c", "clock_from(clock_after_stores());", "clock_from(clock_before_loads());"),
        Edit("send_intent.c", "        FENCE_SEQ_CST();", "        ;"),
        options="model=tso", short=True,
    ),
    hunted(
        "no-fence-between-flags-and-bells", "validity", "eager-sleep",
        Edit("send_eager.c", "    FENCE_SEQ_CST();                                         /* [W1] in wait.c */",
             ""),
        options="model=tso",
    ),
    hunted(
        "no-second-look-before-sleeping", "validity", "eager-sleep",
        Edit("receive.c", "    int found = pick(r, &run);                       /* [W1] look once more */",
             "    int found = 0;\n    (void)run;"),
        short=True,
    ),
    hunted(
        "no-look-at-failed-after-the-scan", "ordering", "eager-poison-tie",
        Edit("receive.c", "        if (rc < 0)\n            return rc;\n        bool current",
             "        if (rc)\n            return rc;\n        bool current"),
    ),
    hunted(
        "copy-skipped-without-telling", "bounded time", "eager-poison",
        Edit("view.c", "            told = fail_in(view->copy[i], failed) &&\n                   spread",
             "            told = spread"),
    ),
    hunted(
        "slot-reused-after-the-first-cursor", "validity", "eager-full-2r",
        Edit("lane.c", "        if (rc == 0 && at < *least)",
             "        if (rc == 0 && (at < *least || own->receivers != rest))"),
    ),
    hunted(
        "one-slot-too-many", "validity", "eager-full",
        Edit("lane.c", "            own->limit = least + view->domain->boxes[box].params.capacity;",
             "            own->limit = least + view->domain->boxes[box].params.capacity + 1;"),
        short=True,
    ),
    hunted(
        "join-without-barrier", "join", "eager-join",
        Edit("join.c", "    while ((local = clock_from(sys_now())) < r->entry << LOW_SHIFT)",
             "    while ((local = clock_from(sys_now())) < 1)"),
        short=True,
    ),
    hunted(
        "a-lane-that-moves-is-a-broken-copy", "availability", "eager-join-2",
        Edit("lane.c", "        if (taken < 0) {", "        if (taken != 0) {"),
    ),
    hunted(
        "skipped-messages-stay-on-the-books", "bounded time", "eager-join-2",
        Edit("receive.c", "        flush(r);\n        uint64_t deadline = pin", "        uint64_t deadline = pin"),
    ),
    hunted(
        "live-lane-reclaimed", "validity", "eager-reclaim",
        Edit("reap.c", "    if (rc || !owner_is_dead(view, &owner))\n        return rc;\n    if (owner_state(owner.value) == OWNER_LIVE)",
             "    if (rc)\n        return rc;\n    if (owner_state(owner.value) == OWNER_LIVE)"),
    ),
    hunted(
        "resolved-without-flags", "consensus", "eager-boxes-crash",
        Edit("resolve.c", "    if (*decided != ACCEPT)\n        return 0;", "    return 0;"),
        short=True,
    ),
    hunted(
        "intent-lowered-before-the-flags", "validity", "eager-2s1r",
        Edit("send_eager.c", "        set_flags(s, op);\n        for", "        intent_lower(s);\n        set_flags(s, op);\n        for"),
        short=True,
    ),
    hunted(
        "send-ignores-a-freeze", "validity", "eager-replace-copy",
        Edit("send_intent.c", "        if (view_is_current(&s->view) && !config_frozen(s->view.config))\n            return 0;",
             "        if (view_is_current(&s->view) || s->op)\n            return 0;"),
    ),
    hunted(
        "replacer-does-not-wait-for-intents", "validity", "eager-replace-copy",
        Edit("replace.c", "    for (uint32_t lane = 0; rc == 0 && lane < view->domain->params.senders; lane++)\n        rc = wait_lane(view, lane, overdue);",
             "    (void)wait_lane, (void)overdue;"),
    ),
    hunted(
        "crash-without-waiting-for-the-sender", "validity", "crash-1x2",
        Edit("receive_crash.c", "        uint64_t ready = head->timestamp + b->send_ns + b->epsilon_ns, local",
             "        uint64_t ready = head->timestamp, local"),
    ),
    hunted(
        "no-delay-after-a-dead-copy", "consensus", "crash-half-flagged",
        Edit("crash.c", "        when += rc ? crash_delay_ns(bounds) : bounds->decide_ns;",
             "        when += rc ? 0 : bounds->decide_ns;"),
        Edit("receive.c", "        sys_sleep_until(sys_now() + skipped * crash_delay_ns(b));",
             "        (void)b;"),
        short=True,
    ),
    hunted(
        "vote-of-a-dropped-copy", "validity", "timing-two-copy",
        Edit("receive_timing.c", "        if (copy->serial != m->at)  ", "        if (0)  "),
        short=True,
    ),
    hunted(
        "members-as-a-dying-copy-says", "validity", "timing-two-copy",
        Edit("send_timed.c", "    if (!seal_ok(entry) || !seal_ok(exit))\n        return SC_COPY_FAILED;",
             "    if (!seal_ok(entry) || !seal_ok(exit))\n        return 0;"),
    ),
    hunted(
        "timing-counts-without-quorum", "validity", "timing-early",
        Edit("receive_timing.c", "    if (f.d == UNDECIDED && f.nrd < quorum) {        /* 29 */",
             "    if (0) {"),
    ),
    hunted(
        "delivery-from-a-copy-just-dropped", "ordering", "eager-poison-tie",
        Edit("receive.c", "        if (current && r->reading_from == r->view.copy[0])", "        if (current)"),
    ),
    hunted(
        "bound-of-a-later-operation", "ordering", "eager-low",
        Edit("receive_eager.c", "    return same ? sealed_value(low) << LOW_SHIFT : 0;",
             "    return sealed_value(low) << LOW_SHIFT;"),
        short=True,
    ),
    hunted(
        "members-of-a-dead-copy", "validity", "timing-two-copy",
        Edit("lane.c", "        int rc = owner_read(view, receiver_place(view->domain, box, r), &owner);",
             "        int rc = 0;\n        owner.value = sealed_value(LOAD_ACQUIRE(\n"
             "            &receiver_of(view->domain, view->copy[0], box, r)->owner.state));"),
    ),
    hunted(
        "no-D", "consensus", "timing-half-two",
        Edit("receive_timing.c", "        f->d = m->taken;", "        ;"),
        Edit("receive_timing.c", "    if (f->d == UNDECIDED)                           /* 30-33 */\n", ""),
    ),
    hunted(
        "what-another-thread-found-is-lost", "availability", "timing-threads",
        Edit("view.c", "            if (domain_find_later(domain) > count)",
             "            int known = LOAD_ACQUIRE(&domain->copy_count);\n"
             "            if (domain_find_later(domain) != known)"),
        short=True,
    ),
    hunted(
        "new-owner-ignores-the-last-stamp", "ordering", "eager-reclaim",
        Edit("send.c", "    stamp_after_last(s, box);\n", "    (void)stamp_after_last;\n"),
        options="grows=0", short=True,
    ),
]  # fmt: skip
