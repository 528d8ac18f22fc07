/* eager.pml: `eager` in one mailbox: order by intent, agreement by a chain of compare-and-swap.
 *
 *   Sender    sc_send: operation_eager, intent_raise, stamp, write_headers, decide, set_flags,
 *             intent_lower, count_outcome (send_eager.c, send_intent.c, send.c)
 *   Receiver  sc_receive: pick, pick_eager, look_at, blocked_from, find_accepted, drain
 *             (receive_eager.c, receive.c), and relieve_eager, end_operation (resolve.c)
 *
 * Up to ROTS copies rot and one process of the set KILLS dies, at any step (copies.pml). A
 * receiver finds a raised intent "late" whenever it likes: time is not modelled, so what holds
 * here holds in any timing.
 *
 * Abstracted: payload and header are one store (the header's CRC makes them one); lanes are as
 * long as the number of messages (reuse: member.pml); `low` is rounded to units of 2 instead
 * of 1024. A receiver that found nothing looks again when something has changed: looking at the
 * same thing twice gives the same.
 *
 * Ordering, and no delivery of what its sender was told is rejected: asserted at each delivery.
 * Consensus, validity and everybody gets done: asserted by Judge, when nothing can move any more.
 */
#ifndef NC
#define NC 2
#endif
#ifndef NR
#define NR 2
#endif
#ifndef M0
#define M0 1                       /* operations of sender 0 */
#endif
#ifndef M1
#define M1 1                       /* of sender 1; 0: there is none */
#endif
#ifndef ROTS
#define ROTS 0
#endif
#ifndef KILLS
#define KILLS 0                    /* set: 1, 2 the senders; 4, 8 the receivers */
#endif
#if M1 > 0
#define NS 2
#else
#define NS 1
#endif
#ifndef LATE
#define LATE 1                     /* 0: every sender is on time or dead */
#endif
#define OVERDUE(s) (LATE || HAS(killed | finished, s))
#define NM 2
#define RECEIVER(r) (2 + (r))
#define ROUNDED(ts) ((ts) & 254)
#include "copies.pml"

typedef Lane { byte intent, low, cell, accepted, ts[NM], op[NM] };
typedef Segment { Lane lane[NS] };
Segment segment[NC];
#define AT(i, s) segment[i].lane[s]

/* Ghosts: what senders were told, what receivers delivered; operation o of sender s is bit 2s+o-1. */
#define ID(s, o) BIT(2 * (s) + (o) - 1)
byte succeeded, rejected, delivered[NR], finished;

#ifdef MUTANT_FLAG_BEFORE_LAST_COPY
#define FLAG_EARLY AT(c, s).accepted = AT(c, s).accepted | BIT(at); touched = 3
#else
#define FLAG_EARLY skip
#endif

#define READ_CLOCK if :: MAY_TICK -> now++ :: skip fi; ts = (now > ts -> now : ts + 1)

proctype Sender(byte s, operations)
{
    VIEW(s);
    byte op, at, low, ts, estimate, walked;
    do
    :: atomic { op < operations -> op++;
#ifdef MUTANT_CLOCK_BEFORE_INTENT
            READ_CLOCK
#endif
        }
        do                                           /* intent_raise */
        ::  if
            :: low -> IN_EVERY_COPY(AT(c, s).low = low)
            :: else
            fi;
            IN_EVERY_COPY(AT(c, s).intent = BUSY(op); touched = 3);
            if
            :: CURRENT -> break
            :: else -> view_refresh()
            fi
        od;
        atomic {                                     /* stamp */
#ifndef MUTANT_CLOCK_BEFORE_INTENT
            READ_CLOCK;
#endif
            low = ROUNDED(ts);
            if :: ts > newest -> newest = ts :: else fi;
            printf("sender %d: operation %d is stamped %d\n", s, op, ts)
        }
        IN_EVERY_COPY(AT(c, s).ts[at] = ts; AT(c, s).op[at] = op; FLAG_EARLY);
#if ROTS > 0
        if :: CURRENT :: else -> view_refresh() fi;
#endif
        estimate = CELL(op, ACCEPT);                 /* decide */
        walk(AT(c, s).cell);
        if
        :: (estimate & 3) == ACCEPT ->
            printf("sender %d: operation %d is accepted\n", s, op);
            IN_EVERY_COPY(AT(c, s).accepted = AT(c, s).accepted | BIT(at); touched = 3);
            at++
        :: else -> printf("sender %d: operation %d is rejected\n", s, op)
        fi;
        IN_EVERY_COPY(AT(c, s).intent = DONE(op); touched = 3);
        atomic {
            if
            :: (estimate & 3) == ACCEPT -> succeeded = succeeded | ID(s, op)
            :: else -> rejected = rejected | ID(s, op)
            fi;
            estimate = 0;
            if
            :: op < operations ->                    /* count_outcome */
                if :: MAY_TICK -> now++ :: skip fi;
                low = (ROUNDED(now) > low -> ROUNDED(now) : low)
            :: else
            fi
        }
    :: atomic { op == operations -> finished = finished | BIT(s); break }
    od;
dead:
    skip
}

#define KEY(ts, s) (2 * (ts) + (s))
#define TAKE_HEAD \
    if \
    :: at[lane] < NM && HAS(AT(c, lane).accepted, at[lane]) -> head[lane] = AT(c, lane).ts[at[lane]] \
    :: else \
    fi
#define BLOCKS (!(intent & 1) && resolved[lane] != intent >> 1)
#define MAY_NEXT(s) (head[s] && head[s] < bound && (!head[1 - (s)] || KEY(head[s], s) < KEY(head[1 - s], 1 - s)))

proctype Receiver(byte r)
{
    VIEW(RECEIVER(r));
    byte reading, t0, bound, lane, intent, low, estimate, walked, p, last, blocked;
    byte at[2], head[2], drained[2], blocking[2], resolved[2];
    bool insist, flag_seen, low_seen;
pick:
    atomic {
        c = FROM(0);
        if
        :: c != reading -> reading = c; head[0] = 0; head[1] = 0; drained[0] = 0; drained[1] = 0
        :: else
        fi;
        touched = touched & ~BIT(r); blocked = 0; bound = 255; lane = 0;
        blocking[0] = 0; blocking[1] = 0;
#ifndef MUTANT_LANES_BEFORE_CLOCK
        if :: MAY_TICK -> now++ :: !insist || !MAY_TICK fi;
        t0 = now;
#endif
        insist = false
    }
    do                                               /* look_at */
    :: atomic { lane < NS && head[lane] -> lane++ }
    :: atomic { lane < NS && !head[lane] && !flag_seen && !low_seen ->
            LOAD(intent = AT(c, lane).intent);
            if
            :: HAS(gone, c) -> goto doubt
            :: else ->
                if :: drained[lane] == intent + 1 -> lane++ :: else -> flag_seen = true fi
            fi
        }
    :: atomic { flag_seen ->
            flag_seen = false;
            LOAD(TAKE_HEAD);                         /* find_accepted */
            if
            :: HAS(gone, c) -> goto doubt
            :: else ->
                if
                :: !head[lane] && BLOCKS ->          /* blocked_from */
                    low_seen = true
                :: else ->
                    if :: !head[lane] && intent & 1 -> drained[lane] = intent + 1 :: else fi;
                    lane++
                fi
            fi
        }
    :: atomic { low_seen && !low ->
            LOAD(low = AT(c, lane).low + 1);
            if :: HAS(gone, c) -> goto doubt :: else fi
        }
    :: atomic { low_seen && low ->
            low--; low_seen = false;
#ifndef MUTANT_NEWER_LOW
            LOAD(if :: AT(c, lane).intent != intent -> low = 0 :: else fi);
            if :: HAS(gone, c) -> goto doubt :: else fi;
#endif
            blocking[lane] = intent >> 1; blocked = blocked | BIT(lane);
            if :: low < bound -> bound = low :: else fi;
            low = 0; lane++
        }
    :: atomic { lane == NS ->
            lane = 0; intent = 0;
#ifdef MUTANT_LANES_BEFORE_CLOCK
            if :: MAY_TICK -> now++ :: skip fi;
            t0 = now;
#endif
            if :: t0 < bound -> bound = t0 :: else fi;
#if ROTS > 0 && !defined(MUTANT_NO_LOOK_AT_FAILED)
            if :: CURRENT :: else -> goto doubt fi;
#endif
            if
            :: MAY_NEXT(0) -> lane = 0
            :: NS > 1 && MAY_NEXT(1) -> lane = 1
            :: else -> bound = 0; t0 = (head[0] || head[1] -> t0 : 0); goto nothing
            fi;
            break
        }
    od;
    do                                               /* drain */
    :: atomic {
            printf("receiver %d: delivers operation %d of sender %d, stamped %d\n",
                   r, AT(c, lane).op[at[lane]], lane, head[lane]);
            assert(KEY(head[lane], lane) > last);    /* ordering */
            last = KEY(head[lane], lane);
            estimate = ID(lane, AT(c, lane).op[at[lane]]);
            assert(!(rejected & estimate));  /* validity: its sender was told the contrary */
            delivered[r] = delivered[r] | estimate;
            estimate = 0; at[lane]++; head[lane] = 0; touched = touched | BIT(r);
            LOAD(TAKE_HEAD);
            if
            :: MAY_NEXT(lane)
            :: lane = 0; bound = 0; goto pick
            fi
        }
    od;
doubt:
    atomic { lane = 0; flag_seen = false; low_seen = false; low = 0; intent = 0; bound = 0 }
    view_refresh();
    goto pick;
nothing:
end:
    if
    :: touched & BIT(r) -> goto pick
    :: atomic { (head[0] || head[1]) && (MAY_TICK || now > t0) -> insist = true } goto pick
    :: atomic { blocked & 1 && OVERDUE(0) -> lane = 0; blocked = 0 }
    :: atomic { blocked & 2 && OVERDUE(1) -> lane = 1; blocked = 0 }
    fi;
    atomic {                                         /* relieve_eager: late, or dead */
        c = reading;
        LOAD(intent = AT(c, lane).intent);
        if
        :: HAS(gone, c) || intent != BUSY(blocking[lane]) -> intent = 0; lane = 0; goto pick
        :: else -> intent = 0
        fi;
        estimate = CELL(blocking[lane], REJECT)
    }
    walk(AT(c, lane).cell);
    if
    :: estimate == CELL(blocking[lane], ACCEPT) ->   /* accept_messages */
        atomic {
            p = 0; c = FROM(0);
            do
            :: p < NM && AT(c, lane).op[p] != blocking[lane] -> p++
            :: else -> break
            od;
            assert(p < NM)  /* validity: the header is in every copy */
        }
        IN_EVERY_COPY(AT(c, lane).accepted = AT(c, lane).accepted | BIT(p); touched = 3)
    :: else
    fi;
    atomic {
        printf("receiver %d: resolves operation %d of sender %d\n", r, blocking[lane], lane);
        if :: estimate >> 2 == blocking[lane] -> resolved[lane] = blocking[lane] :: else fi;
        blocking[lane] = 0; estimate = 0; lane = 0; p = 0
    }
    goto pick;
dead:
    skip
}

#define LIVE(r) (!HAS(killed, RECEIVER(r)))
#define CAME_TO(r) (!LIVE(r) || delivered[r] == (delivered[NR - 1] | succeeded))

proctype Judge()
{
end:
    atomic {
        timeout ->
        assert((finished | killed) & 1 && (M1 == 0 || (finished | killed) & 2));  /* bounded time: nobody is stuck */
        assert(CAME_TO(0) && CAME_TO(NR - 1))        /* consensus and validity */
    }
}

init {
    atomic {
        byte i, j;
        for (i : 0 .. NC - 1) { for (j : 0 .. NS - 1) { AT(i, j).intent = DONE(0) } }
        i = 0; j = 0; touched = 3;
        run Sender(0, M0);
        if :: M1 > 0 -> run Sender(1, M1) :: else fi;
        run Receiver(0);
        if :: NR > 1 -> run Receiver(1) :: else fi;
        run Judge()
    }
}
