/* timing.pml: the second protocol (paper 3.4) in discrete time: decisions by a quorum.
 *
 *   Sender    write_one (send_timed.c): intact, or FAULTY_SENDER: any step as late as it likes
 *   Receiver  advance_in: enter_copy, vote, conclude; advance (receive_timing.c). Receivers 0 and 1
 *             keep their bounds. Receiver 2 does the right things at any time at all, and takes any
 *             time for any other: early, late, with a clock that is far ahead
 *   Clock     real time; it does not pass the moment by which somebody intact must have acted
 *
 * Three receivers, so the quorum is 2. An intact receiver begins within JITTER of the moment when
 * its clock says so, clocks differ by less than EPS, and each of its steps is up to JITTER late.
 * Copies die whole, up to NC - 1 of them, at any moment. (nrd, nxp, LD, D) changes in one step,
 * as its word does in the core. Not modelled: giving up on a quorum, which only happens when the
 * failure hypothesis is broken.
 */
#ifndef NC
#define NC 2
#endif
#ifndef JITTER
#define JITTER 1
#endif
#ifndef EPS
#define EPS 1
#endif
#define DS 2
#define P 1
#define QUORUM 2
#define PAUSE EPS
#define CHI (DS + EPS + P + NC * (PAUSE + 2 * JITTER) + 1)
/* Line 21: "wait for epsilon", so that every intact receiver has counted itself before the first
 * votes. That is too short if steps take time, or if one of them was held up in a copy that died
 * (MUTANT_PAUSE_ONLY): a vote is cast when a quorum has seen the message in time, or none will. */
#ifdef MUTANT_PAUSE_ONLY
#define MAY_VOTE(i, local) true
#else
#define MAY_VOTE(i, local) (field[i].nxp >= QUORUM || field[i].d != UNDECIDED || (local) >= TS + CHI + EPS)
#endif
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define UNDECIDED 0
#define ACCEPT 1
#define REJECT 2
#define NEVER 255

typedef Field { byte nrd, nxp, ld, d };
Field field[NC];
byte clock = 1, dead, written, flag;                 /* written: when, 0 before */
byte awaits[2];                                      /* waits for the quorum: copy + 1 */
byte waits[2], since[2];                             /* an intact receiver that may soon vote: copy + 1, from when */
byte due[4];                                         /* sender, receivers */
byte through, verdict;                               /* ghosts */
#define TS 1
#define COUNT(set) (((set) & 1) + HAS(set, 1) + HAS(set, 2))
#define MAY_DIE(i) (HAS(dead, i) || COUNT(dead) < NC - 1)

#ifdef MUTANT_NO_D
#define DECIDED(i) UNDECIDED
#else
#define DECIDED(i) field[i].d
#endif
#ifdef MUTANT_NO_EXPIRY
#define MAY_CHANGE(i) true
#else
#define MAY_CHANGE(i) (field[i].nxp >= QUORUM)
#endif
#ifdef MUTANT_NO_QUORUM
#define ENOUGH(i) true
#else
#define ENOUGH(i) (field[i].nrd >= QUORUM)
#endif

/* An intact receiver with this skew has seen the message, and its clock says that it is time. */
#define READY (TS + DS + EPS + P)
#define BEGINS(skew) (READY - (skew) > clock + P -> READY - (skew) : clock + P)

proctype Sender()
{
    byte c;
    atomic {
        written = clock; due[1] = BEGINS(0) + JITTER; due[2] = BEGINS(EPS - 1) + JITTER;
        printf("%d: the message is in every copy\n", clock)
    }
    do
    :: atomic { c < NC -> flag = flag | BIT(c); printf("%d: flag in copy %d\n", clock, c); c++ }
    :: atomic { c == NC -> due[0] = NEVER; through = 1; break }
#ifdef FAULTY_SENDER
    :: atomic { due[0] = NEVER; break }
#endif
    od
}

#define LOCAL (clock + skew)
#define INTACT (r < 2)

inline vote(with)
{
    if
    :: DECIDED(c) == UNDECIDED && MAY_CHANGE(c) && with && field[c].nrd < QUORUM -> field[c].ld = 1
    :: else
    fi;
    field[c].nrd++
}

proctype Receiver(byte r, skew)
{
    byte c, taken, until;
    written && (LOCAL >= READY || !INTACT);
    do
    :: c == NC -> break
    :: atomic { c < NC && MAY_DIE(c) -> dead = dead | BIT(c); printf("%d: receiver %d finds copy %d dead\n", clock, r, c); c++ }
    :: atomic { c < NC && !HAS(dead, c) ->           /* enter_copy */
#ifndef MUTANT_NO_D
            if :: field[c].d == UNDECIDED && taken != UNDECIDED -> field[c].d = taken :: else fi;
#endif
            if
            :: DECIDED(c) != UNDECIDED -> vote(false); due[1 + r] = (INTACT -> clock : NEVER); goto quorum
            :: DECIDED(c) == UNDECIDED && (LOCAL < TS + CHI || !INTACT) -> field[c].nxp++
            :: DECIDED(c) == UNDECIDED && (LOCAL >= TS + CHI || !INTACT)
            fi;
            printf("%d: receiver %d enters copy %d, nxp %d\n", clock, r, c, field[c].nxp);
            until = clock + PAUSE;
            if :: INTACT -> due[1 + r] = NEVER; waits[r] = c + 1; since[r] = until :: else fi
        }
        if
        :: atomic { (!INTACT || (clock >= until && MAY_VOTE(c, LOCAL))) && !HAS(dead, c) ->
                if :: INTACT -> waits[r] = 0; since[r] = 0 :: else fi;
                vote(HAS(flag, c)); due[1 + r] = (INTACT -> clock : NEVER);
                printf("%d: receiver %d votes in copy %d: LD %d, nrd %d\n", clock, r, c, field[c].ld, field[c].nrd)
            }
        :: atomic { (!INTACT || clock >= until) && MAY_DIE(c) -> dead = dead | BIT(c);
                if :: INTACT -> waits[r] = 0; since[r] = 0; due[1 + r] = clock + JITTER :: else fi;
                printf("%d: receiver %d finds copy %d dead\n", clock, r, c); goto next
            }
        fi;
quorum:
        atomic { if :: INTACT -> due[1 + r] = NEVER; awaits[r] = c + 1 :: else fi }
        if
        :: atomic { !HAS(dead, c) && (ENOUGH(c) || DECIDED(c) != UNDECIDED) ->      /* conclude */
                if :: DECIDED(c) == UNDECIDED -> field[c].d = (field[c].ld -> ACCEPT : REJECT) :: else fi;
                taken = field[c].d;
                if :: INTACT -> awaits[r] = 0; due[1 + r] = clock + JITTER :: else fi;
                printf("%d: receiver %d concludes in copy %d: %d\n", clock, r, c, taken)
            }
        :: atomic { MAY_DIE(c) -> dead = dead | BIT(c);
                if :: INTACT -> awaits[r] = 0; due[1 + r] = clock + JITTER :: else fi;
                printf("%d: receiver %d finds copy %d dead\n", clock, r, c)
            }
        fi;
next:
        atomic { c++; until = 0 }
    od;
    atomic {
        due[1 + r] = NEVER;
        printf("%d: receiver %d has decided: %d\n", clock, r, taken);
        if
        :: INTACT ->
            assert(verdict == UNDECIDED || verdict == taken);                /* consensus */
            verdict = taken;
#ifndef FAULTY_SENDER
            assert(taken == ACCEPT);                                         /* validity */
#endif
            assert(written <= TS + CHI + EPS || taken == REJECT)             /* ordering */
        :: else
        fi
    }
}

#define LATEST (TS + CHI + EPS + 40)
#define STILL(i) (clock < due[i])
/* Whoever may vote does so at once; whoever finds its copy dead leaves it at once. */
#define HELD(r, skew) (!waits[r] || clock < since[r] || \
    (!HAS(dead, waits[r] - 1) && !MAY_VOTE(waits[r] - 1, clock + (skew)))) && \
    (!awaits[r] || (!HAS(dead, awaits[r] - 1) && !ENOUGH(awaits[r] - 1) && \
                    DECIDED(awaits[r] - 1) == UNDECIDED))
proctype Clock()
{
end:
    do
    :: atomic { clock < LATEST && STILL(0) && STILL(1) && STILL(2) && HELD(0, 0) && HELD(1, EPS - 1) -> clock++ }
    od
}

/* Receiver 2 may stop anywhere: it owes nothing. */
init {
    atomic {
        due[1] = NEVER; due[2] = NEVER; due[3] = NEVER;
#ifdef FAULTY_SENDER
        due[0] = TS + CHI + EPS + 2;
#else
        due[0] = TS + DS;
#endif
        run Sender(); run Receiver(0, 0); run Receiver(1, EPS - 1); run Receiver(2, 0); run Clock()
    }
}
