"""Broken variants of the core that the crash points must catch, each with the cases that do.

Not here, because no case can tell it from the core: a resolver that leaves the dead sender's
intent up. Every receiver ends such an operation by a walk of its own, a new owner of the lane
writes the next intent over it, and whoever replaces a copy gives it up after Δs, as promised.
"""

from __future__ import annotations

from dataclasses import dataclass

from prove.mutants import Edit, Mutant


@dataclass(frozen=True, slots=True)
class Trap:
    """A mutant, and the job that catches it: protocol, script, fault, points, copies."""

    mutant: Mutant
    job: tuple[str, str, str, str, int]


def _trap(name: str, breaks: str, job: tuple[str, str, str, str, int], *edits: Edit) -> Trap:
    return Trap(Mutant(name, breaks, edits), job)


# The first ones are tried in a short run.
TRAPS = (
    _trap(
        "flags-before-the-walk",
        "consensus",
        ("eager", "send-more", "kill+lose", "all", 2),
        Edit(
            "send_eager.c",
            "    if ((rc = decide(s, &decided)))\n        return rc;\n"
            "    if (decided == ACCEPT) {\n        set_flags(s, op);\n",
            "    set_flags(s, op);\n"
            "    if ((rc = decide(s, &decided)))\n        return rc;\n"
            "    if (decided == ACCEPT) {\n",
        ),
    ),
    _trap(
        "resolver-sets-no-flags",
        "consensus",
        ("eager", "send-more", "kill+lose", "all", 2),
        Edit(
            "resolve.c",
            "    if (*decided != ACCEPT)\n        return 0;\n",
            "    if (*decided != UNDECIDED)\n        return 0;\n",
        ),
    ),
    _trap(
        "decision-in-the-first-copy-only",
        "consensus",
        ("crash", "send-more", "kill+lose", "~40/0", 2),
        Edit(
            "crash.c",
            "        enum decision wanted = *taken;\n",
            "        enum decision wanted = *taken;\n"
            "        if (wanted != UNDECIDED)\n            return 0;\n",
        ),
    ),
    _trap(
        "torn-rejected-header-fails-the-copy",
        "validity",
        ("crash", "send-more", "kill+lose", "~20/0", 2),
        Edit(
            "receive.c", "    if (decided != REJECT)\n", "    if (decided != REJECT || lane < 64)\n"
        ),
    ),
    _trap(
        "payload-in-the-first-copy-only",
        "validity",
        ("eager", "send-more", "kill+lose", "~8/0", 2),
        Edit(
            "send.c",
            "            if (s->view.copy[c] != op->in_place)\n",
            "            if (s->view.copy[c] != op->in_place && c == 0)\n",
        ),
    ),
    _trap(
        "claim-without-identity",
        "no leak",
        ("eager", "send-first", "kill", "40", 2),
        Edit(
            "owner.c",
            "    if (rc == 0)\n        rc = agree_identity(view, owner);\n",
            "    if (rc == 0 && owner->value == 0)\n        rc = agree_identity(view, owner);\n",
        ),
    ),
    _trap(
        "reap-does-not-resolve",
        "bounded time",
        ("eager", "reclaim", "kill+lose@27", "30", 2),
        Edit(
            "reap.c",
            "    if (owner_state(owner.value) == OWNER_LIVE)\n",
            "    if (owner_state(owner.value) == OWNER_LIVE && lane == 64)\n",
        ),
    ),
    _trap(
        "reap-of-the-living",
        "validity",
        ("eager", "reap", "kill@20", "all", 2),
        Edit(
            "owner.c",
            "    return sys_liveness(&who) == PROCESS_DEAD;\n",
            "    return sys_liveness(&who) != PROCESS_UNKNOWN;\n",
        ),
    ),
    _trap(
        "live-before-it-is-formatted",
        "validity",
        ("eager", "create", "kill", "all", 2),
        Edit(
            "mailbox.c",
            "SC_NO_LANE : make_extent(&view, box, &e);\n    if (rc == 0)\n"
            "        rc = owner_publish(&view, &owner);\n",
            "SC_NO_LANE : owner_publish(&view, &owner);\n    if (rc == 0)\n"
            "        rc = make_extent(&view, box, &e);\n",
        ),
    ),
    _trap(
        "stillborn-never-cleared",
        "no leak",
        ("eager", "create", "kill", "91", 2),
        Edit("domain.c", "sound += stillborn == 1;", "sound += stillborn == 2;"),
    ),
    _trap(
        "freeze-of-the-dead-stays",
        "bounded time",
        ("eager", "replace", "kill", "~40/0", 3),
        Edit(
            "view.c",
            "        if (now >= give_up || gone) {\n",
            "        (void)gone;\n        if (now >= give_up) {\n",
        ),
    ),
    _trap(
        "slots-not-copied",
        "validity",
        ("eager", "send-more", "truncate:0", "~8/0", 2),
        Edit(
            "replace.c",
            "        copy_message(view, to, box, lane, p);\n",
            "        if (p == UINT64_MAX)\n            copy_message(view, to, box, lane, p);\n",
        ),
    ),
    _trap(
        "no-adoption-in-the-walk",
        "consensus",
        ("eager", "send-more", "kill+lose", "all", 2),
        Edit(
            "agree.c",
            "            *estimate = sealed_value(found);\n            return 0;\n",
            "            return 0;\n",
        ),
    ),
    _trap(
        "decider-falls-behind",
        "validity",
        ("timing", "send-first", "kill", "1", 2),
        Edit(
            "receive.c",
            "            if (r->decider)\n                decider_follow(r, lane);\n",
            "",
        ),
    ),
    _trap(
        "copied-from-a-dying-copy",
        "validity",
        ("eager", "replace", "truncate:1+lose", "all", 3),
        Edit(
            "replace.c",
            "        if (rc || view->failed == failed)\n            return rc;\n",
            "        if (rc || view->failed >= failed)\n            return rc;\n",
        ),
    ),
    _trap(
        "removed-mailbox-tells-nobody",
        "bounded time",
        ("eager", "remove-box", "kill", "all", 2),
        Edit(
            "receive.c",
            "        if (box_is_removed(r))\n",
            "        if (r->box < 0 && box_is_removed(r))\n",
        ),
    ),
    _trap(
        "pages-of-the-removed-stay",
        "no leak",
        ("eager", "remove-box", "kill", "all", 2),
        Edit(
            "mailbox.c",
            "        mailbox_return_pages(view, box);             /* before",
            "        /* before",
        ),
    ),
    _trap(
        "an-heir-repeats-a-number",
        "validity",
        ("eager", "reap", "kill+lose@7", "all", 2),
        Edit(
            "send.c",
            "    s->op = intent >> 1 > cell >> 2 ? intent >> 1 : cell >> 2;\n",
            "    s->op = intent >> 1 > cell ? intent >> 1 : intent >> 1;\n",
        ),
    ),
    _trap(
        "remover-without-a-guard",
        "bounded time",
        ("eager", "remove-domain", "truncate:1", "all", 2),
        Edit(
            "domain.c",
            "    int rc = guard_install();                        /* a copy",
            "    int rc = 0;                        /* a copy",
        ),
    ),
    _trap(
        "failed-copy-is-not-told",
        "bounded time",
        ("eager", "send-more", "unlink:0", "~8/0", 2),
        Edit(
            "view.c",
            "    if (copy->table)\n        fail_in(copy, failed);\n",
            "    (void)failed;\n",
        ),
    ),
)
SHORT = 5
