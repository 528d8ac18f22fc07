/* crash.pml: the first protocol (paper 3.3) in discrete time, within its bounds.
 *
 *   Sender    operation_timed, write_one (send_timed.c)
 *   Receiver  pick, change_copy (receive.c), pick_crash (receive_crash.c), crash_decide, decide_in
 *             (crash.c)
 *   Clock     real time; it does not pass the moment by which somebody must have acted
 *
 * A sender is through within DS of its timestamp, or dies at any step. Deciding in one copy takes
 * up to DD: the access comes at any moment of its slot. A receiver begins any time after
 * ts + DS + EPS, by its own clock; clocks differ by less than EPS. Copies die whole (every later
 * access of everybody fails), up to NC - 1 of them, at any moment.
 *
 * Consensus and validity: asserted whenever a receiver has decided; with two messages, each of a sender
 * of its own (NM=2), their order too. Bounded time is not looked at here.
 */
#ifndef NC
#define NC 2
#endif
#ifndef NM
#define NM 1                       /* messages, each of a sender of its own */
#endif
#ifndef DEATHS
#define DEATHS (NC - 1)
#endif
#ifndef EPS
#define EPS 1
#endif
#ifndef DD
#define DD 2
#endif
#define DS 2
#define NR 2
#define BIT(i) (1 << (i))
#define ALL (BIT(NC) - 1)
#define HAS(set, i) (((set) >> (i)) & 1)
#define UNDECIDED 0
#define ACCEPT 1
#define REJECT 2

/* How long to wait for each copy found dead: whoever decided in it just before it died must have
 * reached the next one. It may have had the whole of its slot left there, and all of the next. */
#ifdef MUTANT_NO_DELAY
#define DELAY 0
#elif defined(MUTANT_DELAY_OF_ONE_SLOT)
#define DELAY (DD + EPS)
#else
#define DELAY (2 * DD + EPS)
#endif
#ifdef MUTANT_ONE_DELAY_FOR_ALL
#define DELAYS DELAY
#else
#define DELAYS (DELAY * skipped)
#endif
/* The clock is read before the heads of the lanes (pick_crash): if it shows that the earliest one's time
 * is over, an earlier one would have been there. */
#ifdef MUTANT_CLOCK_AFTER_HEADS
#define LOOKED clock
#else
#define LOOKED begun
#endif
#ifdef MUTANT_FAST_RECEIVER
#define READY(t) (r == 1 || LOOKED + skew >= (t) + DS + EPS)
#else
#define READY(t) (LOOKED + skew >= (t) + DS + EPS)
#endif

byte clock = 1, dead;
byte written[NC], flag[NC];        /* sets of messages */
typedef Fields { byte d[NM] };
Fields decision[NC];
byte ts[NM];
byte due[NM + NR];                 /* by then this process acts */
byte sent, verdict[NM];            /* ghosts; verdict: REJECT, ACCEPT, of the first that decided */
#define NEVER 255
#define BEGIN_BY 8                 /* later beginnings only lengthen the run */
#define NOTHING_COMES (due[0] == NEVER && due[NM - 1] == NEVER)

#define MAY_DIE(i) (HAS(dead, i) || COUNT(dead) < DEATHS)
#define COUNT(set) (((set) & 1) + HAS(set, 1) + HAS(set, 2))
#define DIES(i) \
    if \
    :: !HAS(dead, i) -> dead = dead | BIT(i); printf("%d: copy %d dies\n", clock, i) \
    :: else \
    fi

proctype Sender(byte m)
{
    byte c;
    atomic {
        ts[m] = clock; due[m] = clock + DS;
        printf("%d: sender %d stamps its message\n", clock, m)
    }
    do
    :: atomic { c < NC -> written[c] = written[c] | BIT(m); c++ }
    :: c == NC -> c = 0; break
    :: goto died
    od;
    do
    :: atomic { c < NC -> flag[c] = flag[c] | BIT(m); c++ }
    :: c == NC -> break
    :: goto died
    od;
    atomic { sent = sent | BIT(m); due[m] = NEVER; printf("%d: sender %d is through\n", clock, m); goto over }
died:
    atomic { due[m] = NEVER; printf("%d: sender %d dies, flags set in %d copies\n", clock, m, c) }
over:
    skip
}

#define FROM(i) (HAS(view, i) || (i) >= NC -> (i) : (HAS(view, (i) + 1) || (i) + 1 >= NC -> (i) + 1 : (i) + 2))
#define UNREAD(m) (HAS(written[f], m) && !HAS(over, m))

/* view_refresh: drops every copy that is dead by now; `skipped` counts those before the next. */
inline refresh()
{
    DIES(suspect); c = 0; skipped = 0;
    do
    :: c < NC && HAS(view, c) && MAY_DIE(c) -> DIES(c); view = view & ~BIT(c); skipped++; c++
    :: c < NC && !(HAS(view, c) && HAS(dead, c)) -> c++
    :: c == NC -> break
    od;
    assert(view)  /* the model: one copy never fails */
}

proctype Receiver(byte r, skew)
{
    byte view = ALL, f, c, m, taken, begun, when, over, skipped, suspect, last;
    do
    :: atomic { over == BIT(NM) - 1 -> due[NM + r] = NEVER; break }
    :: atomic { NOTHING_COMES && !UNREAD(0) && !UNREAD(NM - 1) && !HAS(dead, f) ->
            due[NM + r] = NEVER;
            assert((HAS(over, 0) || verdict[0] != ACCEPT) && (HAS(over, NM - 1) || verdict[NM - 1] != ACCEPT));  /* consensus: another one was given it */
            break
        }
    :: atomic { UNREAD(0) || UNREAD(NM - 1) ->
            /* earliest_head */
            begun = clock;
            m = (UNREAD(0) -> 0 : NM - 1);
#if NM > 1
            if :: UNREAD(0) && UNREAD(1) && ts[1] < ts[0] -> m = 1 :: else fi
#endif
        }
        if
        :: atomic { READY(ts[m]) -> when = clock; taken = UNDECIDED; c = f; due[NM + r] = clock + DD }
        :: atomic { !READY(ts[m]) -> m = 0; begun = 0 } goto again
        fi;
        do                                           /* crash_decide */
        :: atomic { c < NC && clock >= when && !HAS(dead, c) ->      /* decide_in */
                if
                :: decision[c].d[m] != UNDECIDED ->
                    taken = (taken == UNDECIDED -> decision[c].d[m] : taken)
                :: else ->
                    taken = (taken != UNDECIDED -> taken : (HAS(flag[c], m) -> ACCEPT : REJECT));
                    decision[c].d[m] = taken
                fi;
                printf("%d: receiver %d decides in copy %d: %d\n", clock, r, c, taken);
                when = when + DD;
                c = FROM(c + 1);
                due[NM + r] = when + DD
            }
        :: atomic { c < NC && clock >= when && MAY_DIE(c) ->
                suspect = c; printf("%d: receiver %d finds copy %d dead\n", clock, r, c);
                refresh();
                c = FROM(suspect + 1);
                when = (when + DD > clock + DELAY * (c - suspect) || taken != UNDECIDED ->
                        when + DD : clock + DELAYS);
                suspect = 0; skipped = 0;
                due[NM + r] = when + DD
            }
        :: atomic { c >= NC ->
                due[NM + r] = clock + BEGIN_BY; c = 0; when = 0;
                if
                :: f != FROM(0) -> f = FROM(0)
                :: else
                fi;
                break
            }
        od;
        atomic {
            printf("%d: receiver %d has decided on message %d: %d\n", clock, r, m, taken);
            assert(verdict[m] == UNDECIDED || verdict[m] == taken);          /* consensus */
            assert(!HAS(sent, m) || taken == ACCEPT);                        /* validity */
            verdict[m] = taken;
#if NM > 1
            assert(taken != ACCEPT || !last || ts[last - 1] < ts[m] || (ts[last - 1] == ts[m] && last - 1 < m));  /* ordering */
            last = (taken == ACCEPT -> m + 1 : last);
#endif
            over = over | BIT(m); taken = 0; m = 0; begun = 0
        }
again:
        skip
    :: atomic { over != BIT(NM) - 1 && MAY_DIE(f) ->  /* load_head finds it dead: change_copy */
            suspect = f; printf("%d: receiver %d finds copy %d dead, before deciding\n", clock, r, f);
            refresh();
            f = FROM(0); c = 0; suspect = 0;
            when = clock + DELAYS; skipped = 0;
            due[NM + r] = (when > BEGIN_BY -> when : BEGIN_BY)
        }
        atomic { clock >= when -> when = 0 }
    od
}

#define LATEST 60
#define STILL(p) (clock < due[p])
proctype Clock()
{
end:
    do
    :: atomic { clock < LATEST && STILL(0) && STILL(1) && STILL(2) && STILL(NM + 1) -> clock++ }
    od
}

init {
    atomic {
        byte i;
        for (i : 0 .. NM + NR - 1) { due[i] = (i < NM -> NM : BEGIN_BY) }
        i = 0;
        run Sender(0);
#if NM > 1
        run Sender(1);
#endif
        run Receiver(0, 0);
        run Receiver(1, EPS - 1);
        run Clock()
    }
}
