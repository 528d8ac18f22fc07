/* eager_multi.pml: one send to several mailboxes of a domain: all or nothing, one order over all.
 *
 *   Sender    operation_eager with a set of mailboxes (send_eager.c, send_intent.c)
 *   Receiver  pick_eager, look_at, blocked_from with `boxes`, relieve_eager, resolve_operation with
 *             its own mailbox (receive_eager.c, resolve.c)
 *
 * One copy, which never fails: agreement over copies is eager.pml's matter; here it is what one
 * decision for two mailboxes means. Receiver 0 reads mailbox A, receiver 1 mailbox B. Sender 0
 * sends to A and B. Sender 1 sends first to B, then to A (and to B too, if BOTH): so the
 * destinations in its intent change under the receivers' eyes. One sender of the set KILLS may die
 * instead of any store; a receiver finds an intent late whenever it likes (LATE), or when its
 * sender is dead.
 *
 * ONE_RECEIVER leaves out receiver 0 and Judge, to look at the order alone with more operations.
 *
 * Every receiver delivers by (timestamp, sender): so all deliveries are projections of one order.
 */
#define NS 2
#define NM 2
#define A 1
#define B 2
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef M1
#define M1 2
#endif
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define UNDECIDED 0
#define ACCEPT 1
#define REJECT 2
#define BUSY(op) ((op) << 1)
#define DONE(op) (((op) << 1) | 1)
#define CELL(op, decision) (((op) << 2) | (decision))
#define ID(s, o) BIT(2 * (s) + (o) - 1)
#define KEY(ts, s) (2 * (ts) + (s))
#ifdef BOTH
#define TO(s, op) ((s) == 0 -> A | B : ((op) == 1 -> B : A | B))
#else
#define TO(s, op) ((s) == 0 -> A | B : ((op) == 1 -> B : A))
#endif

typedef Ring { byte accepted, ts[NM], op[NM] };      /* one lane of one mailbox */
typedef Lane { byte intent = 1, low, boxes; byte cell[2]; Ring box[2] };
Lane lane_of[NS];
byte now = 1, newest, killed, touched = 3, finished;
byte succeeded, rejected, delivered[2];
#define MAY_TICK (newest >= now)

#ifdef MUTANT_TWO_DECISIONS
#define CELL_OF(s, b) lane_of[s].cell[b]
#else
#define CELL_OF(s, b) lane_of[s].cell[0]
#endif

#define STEP(what) \
    atomic { \
        if \
        :: what \
        :: HAS(KILLS, s) && !killed -> killed = BIT(s); printf("sender %d dies\n", s); goto dead \
        fi \
    }

/* One copy, so a walk is one compare-and-swap. */
inline propose(s_, b_, op_, value)
{
    if
    :: CELL_OF(s_, b_) >> 2 < op_ -> CELL_OF(s_, b_) = CELL(op_, value); verdict = value
    :: CELL_OF(s_, b_) >> 2 == op_ -> verdict = CELL_OF(s_, b_) & 3
    :: CELL_OF(s_, b_) >> 2 > op_ -> verdict = UNDECIDED
    fi
}

proctype Sender(byte s, operations)
{
    byte op, ts, low, boxes, b, verdict, yes;
    byte at[2];
    do
    :: op < operations ->
        atomic { op++; boxes = TO(s, op) }
#ifdef MUTANT_BOXES_AFTER_INTENT
        if :: low -> STEP(lane_of[s].low = low) :: else fi;
        STEP(lane_of[s].intent = BUSY(op); touched = 3);
        STEP(lane_of[s].boxes = boxes);
#else
        STEP(lane_of[s].boxes = boxes);
        if :: low -> STEP(lane_of[s].low = low) :: else fi;
        STEP(lane_of[s].intent = BUSY(op); touched = 3);
#endif
        atomic {
            if :: MAY_TICK -> now++ :: skip fi;
            ts = (now > ts -> now : ts + 1); low = ts & 254;
            if :: ts > newest -> newest = ts :: else fi;
            printf("sender %d: operation %d to %d is stamped %d\n", s, op, boxes, ts)
        }
        do
        :: b < 2 && HAS(boxes, b) -> STEP(lane_of[s].box[b].ts[at[b]] = ts; lane_of[s].box[b].op[at[b]] = op); b++
        :: b < 2 && !HAS(boxes, b) -> b++
        :: b == 2 -> b = 0; break
        od;
        yes = 0;
        do
        :: b < 2 && HAS(boxes, b) -> STEP(propose(s, b, op, ACCEPT); yes = yes | ((verdict == ACCEPT) << b)); b++
        :: b < 2 && !HAS(boxes, b) -> b++
        :: b == 2 -> b = 0; break
        od;
        do
        :: b < 2 && HAS(yes, b) ->
            STEP(lane_of[s].box[b].accepted = lane_of[s].box[b].accepted | BIT(at[b]); touched = 3);
            at[b]++; b++
        :: b < 2 && !HAS(yes, b) -> b++
        :: b == 2 -> b = 0; break
        od;
        STEP(lane_of[s].intent = DONE(op); touched = 3);
        atomic {
            if
            :: yes == boxes -> succeeded = succeeded | ID(s, op)
            :: else -> rejected = rejected | ID(s, op); printf("sender %d: operation %d is rejected\n", s, op)
            fi;
            yes = 0; verdict = 0
        }
    :: atomic { op == operations -> finished = finished | BIT(s); break }
    od;
dead:
    skip
}

#define RING lane_of[lane].box[r]
#define TAKE_HEAD \
    if \
    :: at[lane] < NM && HAS(RING.accepted, at[lane]) -> head[lane] = RING.ts[at[lane]] \
    :: else \
    fi
#define MAY_NEXT(s) (head[s] && head[s] < bound && (!head[1 - (s)] || KEY(head[s], s) < KEY(head[1 - (s)], 1 - (s))))
#define OVERDUE(s) (LATE || HAS(killed, s))

proctype Receiver(byte r)
{
    byte t0, bound, lane, intent, low, boxes, phase, verdict, p, last, blocked;
    byte at[2], head[2], drained[2], blocking[2], resolved[2];
    bool insist;
pick:
    atomic {
        touched = touched & ~BIT(r); blocked = 0; bound = 255; lane = 0; blocking[0] = 0; blocking[1] = 0;
        if :: MAY_TICK -> now++ :: !insist || !MAY_TICK fi;
        t0 = now; insist = false
    }
    do
    :: atomic { lane < NS && head[lane] -> lane++ }
    :: atomic { lane < NS && !head[lane] && phase == 0 ->
            intent = lane_of[lane].intent;
            if :: drained[lane] == intent + 1 -> lane++ :: else -> phase = 1 fi
        }
    :: atomic { phase == 1 ->
            TAKE_HEAD;
            if
            :: !head[lane] && !(intent & 1) && resolved[lane] != intent >> 1 -> phase = 2
            :: else ->
                if :: !head[lane] && intent & 1 -> drained[lane] = intent + 1 :: else fi;
                lane++; phase = 0
            fi
        }
    :: atomic { phase == 2 -> low = lane_of[lane].low; phase = 3 }
    :: atomic { phase == 3 -> boxes = lane_of[lane].boxes; phase = 4 }
    :: atomic { phase == 4 ->
            phase = 0;
            if
#ifdef MUTANT_NO_SECOND_LOOK
            :: !HAS(boxes, r)
#elif defined(MUTANT_NO_DESTINATIONS)
            :: false
#else
            :: lane_of[lane].intent == intent && !HAS(boxes, r)
#endif
            :: else ->
                /* genuine: an operation for others stops nobody, while it is seen as it is */
                assert(lane_of[lane].intent != intent || HAS(TO(lane, intent >> 1), r));  /* genuineness: not kept waiting by what is for others */
                low = (lane_of[lane].intent == intent -> low : 0);
                blocking[lane] = intent >> 1; blocked = blocked | BIT(lane);
                bound = (low < bound -> low : bound)
            fi;
            low = 0; boxes = 0; lane++
        }
    :: atomic { lane == NS ->
            lane = 0; intent = 0;
            bound = (t0 < bound -> t0 : bound);
            if
            :: MAY_NEXT(0) -> lane = 0
            :: MAY_NEXT(1) -> lane = 1
            :: else -> bound = 0; t0 = (head[0] || head[1] -> t0 : 0); goto nothing
            fi;
            printf("receiver %d: delivers operation %d of sender %d, stamped %d\n", r, RING.op[at[lane]], lane, head[lane]);
            assert(KEY(head[lane], lane) > last);  /* ordering: one order */
            last = KEY(head[lane], lane);
            assert(!(rejected & ID(lane, RING.op[at[lane]])));  /* validity: its sender was told the contrary */
            delivered[r] = delivered[r] | ID(lane, RING.op[at[lane]]);
            at[lane]++; head[lane] = 0; touched = touched | BIT(r);
            lane = 0; bound = 0;
            goto pick
        }
    od;
nothing:
end:
    if
    :: touched & BIT(r) -> goto pick
    :: atomic { (head[0] || head[1]) && (MAY_TICK || now > t0) -> insist = true } goto pick
    :: atomic { blocked & 1 && OVERDUE(0) -> lane = 0; blocked = 0 }
    :: atomic { blocked & 2 && OVERDUE(1) -> lane = 1; blocked = 0 }
    fi;
    atomic {
        if
        :: lane_of[lane].intent != BUSY(blocking[lane]) -> lane = 0; goto pick
        :: else -> propose(lane, r, blocking[lane], REJECT)
        fi;
        printf("receiver %d: resolves operation %d of sender %d\n", r, blocking[lane], lane)
    }
    atomic {
        p = 0;
        if
        :: verdict == ACCEPT ->
            do
            :: p < NM && RING.op[p] != blocking[lane] -> p++
            :: else -> break
            od;
            assert(p < NM);  /* all or nothing: in every mailbox before the decision */
            RING.accepted = RING.accepted | BIT(p); touched = 3
        :: else
        fi;
        if :: verdict != UNDECIDED -> resolved[lane] = blocking[lane] :: else fi;
        blocking[lane] = 0; verdict = 0; lane = 0; p = 0
    }
    goto pick
}

#define BOTH_OR_NONE(o) ((delivered[0] & (o)) == (delivered[1] & (o)))
proctype Judge()
{
end:
    atomic {
        timeout ->
        assert((finished | killed) == 3);  /* bounded time: nobody is stuck */
        assert(BOTH_OR_NONE(ID(0, 1)));              /* all or nothing */
#ifdef BOTH
        assert(BOTH_OR_NONE(ID(1, 2)));  /* all or nothing */
#endif
        assert(((delivered[0] | delivered[1]) & succeeded) == succeeded)     /* validity */
    }
}

init {
    atomic {
        run Sender(0, 1); run Sender(1, M1); run Receiver(1);
#ifndef ONE_RECEIVER
        run Receiver(0); run Judge()
#endif
    }
}
