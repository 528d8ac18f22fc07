"""Which models are checked, with which sizes, and the broken variants that must be caught."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    says: str
    model: str
    switches: tuple[str, ...] = ()
    short: bool = False  # also in the short form: a few seconds
    cost: float = 5  # about so many seconds, on one core


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str  # the switch in the model is MUTANT_<name>
    breaks: str
    model: str
    switches: tuple[str, ...] = ()
    short: bool = False


ONE_ORDER = ("NC=1", "M0=1", "M1=1", "NR=1", "LATE=0")
TWICE = ("NC=1", "M0=2", "M1=1", "NR=1", "LATE=0")
RESOLVED = ("NC=1", "M0=1", "M1=1", "NR=1")
KILLED = ("NC=2", "M0=1", "M1=0", "NR=2", "KILLS=5")
ROTTEN = ("NC=2", "M0=1", "M1=0", "NR=2", "ROTS=1", "KILLS=1", "LATE=0")

MODELS = [
    Case(
        "eager: order by intent, a sender with two operations",
        "a receiver delivers by (timestamp, sender), in any timing of two senders",
        "eager",
        TWICE,
    ),
    Case(
        "eager: order by intent, senders that are too late",
        "any intent may be resolved at any time: order, and no delivery of what was rejected",
        "eager",
        RESOLVED,
        short=True,
    ),
    Case(
        "eager: two copies, two receivers, the sender or a receiver killed at any step",
        "consensus and validity; everybody gets done",
        "eager",
        KILLED,
        short=True,
    ),
    Case(
        "eager: two copies, one rots, two receivers, the sender killed at any step",
        "consensus and validity; everybody gets done",
        "eager",
        ROTTEN,
    ),
    Case(
        "eager-multi: a sender with changing destinations",
        "one order, and nobody waits for an operation that is for others",
        "eager_multi",
        ("M1=2", "ONE_RECEIVER"),
    ),
    Case(
        "eager-multi: two mailboxes, the sender killed at any step",
        "all or nothing",
        "eager_multi",
        ("M1=0", "KILLS=1"),
    ),
    Case(
        "crash: two copies, one dies at any moment, the sender dies at any step",
        "consensus and validity within the bounds, if each dead copy costs 2δd + ε",
        "crash",
        (),
        short=True,
    ),
    Case(
        "crash: three copies, two die",
        "the same",
        "crash",
        ("NC=3",),
        cost=12,
    ),
    Case(
        "crash: two messages of two senders, one copy",
        "consensus, validity and one order within the bounds",
        "crash",
        ("NM=2", "NC=1"),
        cost=19,
    ),
    Case(
        "timing: three receivers, one early or late in any way, a copy dies",
        "consensus and validity, if nobody votes before a quorum has seen the message in time",
        "timing",
        (),
        short=True,
    ),
    Case(
        "timing: a sender as late as it likes",
        "consensus; what comes after its expiry is rejected",
        "timing",
        ("FAULTY_SENDER", "JITTER=0"),
    ),
    Case(
        "replace: a new copy under way, anybody killed at any step, then the old copy dies",
        "consensus, validity, no flag without its message; everybody gets done",
        "replace",
        ("NR=1", "KILLS=7"),
        short=True,
    ),
    Case(
        "member: a receiver joins and leaves while messages are sent, one slot",
        "what is sent between joining and leaving is read; no slot is used again before",
        "member",
        ("CAPACITY=1",),
        short=True,
    ),
    Case(
        "member: the same, two slots",
        "the same",
        "member",
    ),
    Case(
        "wait: the bell, on store buffers",
        "no lost wake-up",
        "wait",
        ("PAIR=1",),
        short=True,
    ),
    Case(
        "wait: intent and clock, on store buffers",
        "a receiver that sees neither intent nor message read the clock before the sender did",
        "wait",
        ("PAIR=2",),
        short=True,
    ),
    Case(
        "wait: intent and freeze, on store buffers",
        "a sender and whoever replaces a copy: one of them sees the other",
        "wait",
        ("PAIR=3",),
        short=True,
    ),
]

MUTANTS = [
    Mutant("NO_ADOPTION", "ordering", "eager", RESOLVED, short=True),
    Mutant("CLOCK_BEFORE_INTENT", "ordering", "eager", ONE_ORDER),
    Mutant("LANES_BEFORE_CLOCK", "ordering", "eager", ONE_ORDER),
    Mutant("NEWER_LOW", "ordering", "eager", TWICE),
    Mutant("FLAG_BEFORE_LAST_COPY", "consensus", "eager", ROTTEN),
    Mutant("SILENT_SKIP", "validity", "eager", ROTTEN),
    Mutant("NO_LOOK_AT_FAILED", "validity", "eager", ROTTEN),
    Mutant("TWO_DECISIONS", "all or nothing", "eager_multi", ("M1=0", "LATE=1"), short=True),
    Mutant("NO_SECOND_LOOK", "ordering", "eager_multi", ("M1=2", "ONE_RECEIVER")),
    Mutant("NO_DESTINATIONS", "genuineness", "eager_multi", ("M1=2", "ONE_RECEIVER")),
    Mutant("FAST_RECEIVER", "validity", "crash", short=True),
    Mutant("NO_DELAY", "consensus", "crash", (), short=True),
    Mutant("DELAY_OF_ONE_SLOT", "consensus", "crash"),
    Mutant("ONE_DELAY_FOR_ALL", "consensus", "crash", ("NC=3",)),
    Mutant("CLOCK_AFTER_HEADS", "ordering", "crash", ("NM=2", "NC=1")),
    Mutant("NO_D", "consensus", "timing", ("FAULTY_SENDER", "JITTER=0")),
    Mutant("NO_EXPIRY", "ordering", "timing", ("FAULTY_SENDER",)),
    Mutant("NO_QUORUM", "validity", "timing", ()),
    Mutant("PAUSE_ONLY", "validity", "timing", (), short=True),
    Mutant("NO_WAIT_FOR_INTENTS", "consensus", "replace", ("NR=1",)),
    Mutant("SENDER_IGNORES_FREEZE", "validity", "replace", ("NR=1",)),
    Mutant("WALK_IGNORES_FREEZE", "consensus", "replace", ("NR=1",), short=True),
    Mutant("COUNTS_BEFORE_IT_IS_FULL", "validity", "replace", ("NR=1",)),
    Mutant("JOIN_WITHOUT_BARRIER", "join", "member", ("CAPACITY=1",), short=True),
    Mutant("NO_SECOND_LOOK", "integrity", "member"),
    Mutant("COUNT_BEFORE_LIVE", "integrity", "member"),
    Mutant("INTENT_NOT_AWAITED", "validity", "member"),
    Mutant("LEAVES_AT_ONCE", "validity", "member"),
    Mutant("NO_FENCE_BEFORE_RING", "bounded time", "wait", ("PAIR=1",), short=True),
    Mutant("LOOK_BEFORE_ARMING", "bounded time", "wait", ("PAIR=1",)),
    Mutant("NO_FENCE_AFTER_INTENT", "ordering", "wait", ("PAIR=2",), short=True),
    Mutant("CLOCK_AFTER_INTENT", "ordering", "wait", ("PAIR=2",)),
    Mutant("NO_FENCE_AFTER_FREEZE", "no forgotten decision", "wait", ("PAIR=3",)),
]
