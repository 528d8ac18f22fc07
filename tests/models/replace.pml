/* replace.pml: a new copy for a failed one while a message is being decided (docs/decisions/0006).
 *
 *   Sender    operation_eager, intent_raise (send_eager.c, send_intent.c)
 *   Receiver  find_accepted, relieve_eager, end_operation (receive_eager.c, resolve.c)
 *   Replacer  freeze_and_copy, wait_lane, copy_everything (replace.c)
 *   Thaw      view_wait_thawed (view.c): anyone who waits may overrule the replacer at any time
 *   Killer    the old copy dies, at any moment after the new one can stand alone
 *
 * Of two copies one has failed before; what is left is the old one, OLD, and the replacer adds NEW.
 * With one old copy a walk through it is one compare-and-swap, so the configuration is decided by one
 * too. A sender or receiver may be as late as it likes, and one process of the set KILLS dies at
 * any step. Store buffers are the business of wait.pml (PAIR=3).
 *
 * Consensus: nobody acts on ACCEPT while another acts on REJECT. Integrity: a flag is seen only where
 * the message is. Validity and everybody gets done: asserted by Judge, when nothing can move any more.
 */
#ifndef NR
#define NR 2
#endif
#ifndef KILLS
#define KILLS 0                    /* set: 1 the sender, 2 the replacer, 4, 8 the receivers */
#endif
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define OLD 0
#define NEW 1
#define UNDECIDED 0
#define ACCEPT 1
#define REJECT 2

/* Configurations. NEXT and THAWED are proposals for the same version: one of them is decided. */
#define FIRST 0
#define FROZEN 1
#define NEXT 2
#define THAWED 3

byte config[2], intent[2], cell[2], flag[2], data[2];
bool linked, gone;                 /* NEW has its name; OLD is dead */
byte killed, finished;             /* sets of processes */
byte touched = 255;                /* ghost: who has not looked since something changed */
bool accepted, rejected;           /* ghosts: somebody acted on it */

#define MAY_DIE (HAS(KILLS, me) && !killed)
#define DIE killed = BIT(me); printf("process %d dies\n", me); goto dead
#define STAND_ALONE (linked && config[NEW] == NEXT)

/* struct view: which of the two copies, and the configuration that was seen. */
#define VIEW(who) byte me = who, seen = FIRST, c = OLD; bool has_new, old_lost
#define SHOWN (gone -> config[NEW] : config[OLD])
#define CURRENT (seen == SHOWN && old_lost == gone)

/* view_refresh: a configuration of two copies brings the new one, and is told to it (spread). */
#define REFRESH \
    atomic { \
        seen = SHOWN; old_lost = gone; \
        if \
        :: seen == NEXT -> has_new = true; config[NEW] = NEXT \
        :: else \
        fi \
    }

#define LAST (has_new -> NEW : OLD)
#define LIVE(i) (!((i) == OLD && gone))

/* `what` in every copy of the view, a step each; a dead one is passed over. */
#define IN_EVERY_COPY(what) \
    c = OLD; \
    do \
    :: atomic { c <= LAST && LIVE(c) -> if :: what; touched = 255 :: MAY_DIE -> DIE fi; c++ } \
    :: atomic { c <= LAST && !LIVE(c) -> c++ } \
    :: atomic { c > LAST -> c = OLD; break } \
    od

/* view_wait_thawed: waits, or overrules the replacer, which may be dead or late. */
#define WAIT_THAWED \
    do \
    :: atomic { SHOWN != FROZEN -> break } \
    :: atomic { !gone && config[OLD] == FROZEN -> config[OLD] = THAWED; touched = 255; printf("process %d overrules the replacer\n", me) } \
    od; \
    REFRESH

/* agree.c, walk: adopt or set, copy by copy. It ends in a configuration that shows no freeze
 * (ends_frozen: or does) and no copy that was not visited. */
#ifdef MUTANT_WALK_IGNORES_FREEZE
#define MUST_WAIT(ends_frozen) false
#else
#define MUST_WAIT(ends_frozen) (!(ends_frozen) && seen == FROZEN)
#endif
#define WALK(ends_frozen) \
    c = OLD; \
    do \
    :: atomic { c <= LAST && LIVE(c) -> \
            if \
            :: cell[c] != UNDECIDED -> estimate = cell[c] \
            :: cell[c] == UNDECIDED -> cell[c] = estimate; touched = 255 \
            :: MAY_DIE -> DIE \
            fi; \
            c++ } \
    :: atomic { c <= LAST && !LIVE(c) -> c++ } \
    :: c > LAST -> \
        REFRESH; \
        if \
        :: MUST_WAIT(ends_frozen) -> WAIT_THAWED \
        :: else \
        fi; \
        if \
        :: atomic { c > LAST && CURRENT -> c = OLD; break } \
        :: else \
        fi \
    od

inline acts_on(decision)
{
    atomic {
        if
        :: decision == ACCEPT -> accepted = true
        :: decision == REJECT -> rejected = true
        fi;
        assert(!(accepted && rejected))              /* consensus */
    }
}

proctype Sender()
{
    VIEW(0);
    byte estimate;
    IN_EVERY_COPY(data[c] = 1);
    do                                               /* intent_raise */
    ::  IN_EVERY_COPY(intent[c] = 1);
#ifdef MUTANT_SENDER_IGNORES_FREEZE
        break
#else
        if
        :: atomic { CURRENT && seen != FROZEN -> break }
        :: atomic { !CURRENT || seen == FROZEN -> skip }
            REFRESH;
            if
            :: seen == FROZEN -> IN_EVERY_COPY(intent[c] = 0); WAIT_THAWED
            :: else
            fi
        fi
#endif
    od;
    IN_EVERY_COPY(data[c] = 1);                      /* a copy may have come meanwhile */
    atomic { printf("the sender is at work\n"); estimate = ACCEPT }
    WALK(true);
    atomic { printf("the sender: %d\n", estimate) }
    acts_on(estimate);
    if
    :: estimate == ACCEPT -> IN_EVERY_COPY(flag[c] = 1)
    :: else
    fi;
    IN_EVERY_COPY(intent[c] = 0);
    atomic { finished = finished | BIT(me); touched = 255 }
dead:
    skip
}

proctype Receiver(byte r)
{
    VIEW(2 + r);
    byte estimate;
    do
    :: atomic { touched = touched & ~BIT(r); if :: CURRENT :: else -> seen = SHOWN; old_lost = gone; has_new = has_new || seen == NEXT fi; c = (gone -> NEW : OLD) }
        if
        :: atomic { flag[c] -> assert(data[c]); estimate = ACCEPT; printf("receiver %d sees the flag in copy %d\n", r, c); break }  /* validity: no flag without its message */
        :: atomic { !flag[c] && intent[c] -> estimate = REJECT }     /* late, or dead */
            WALK(false);
            atomic { printf("receiver %d: %d\n", r, estimate) }
            if
            :: estimate == ACCEPT ->
                c = (gone -> NEW : OLD);
                assert(data[c]);  /* validity: the header is in every copy */
                IN_EVERY_COPY(flag[c] = 1)
            :: else
            fi;
            break
        :: atomic { !flag[c] && !intent[c] -> c = OLD }
end:        touched & BIT(r)
        fi
    od;
    acts_on(estimate);
    finished = finished | BIT(me);
dead:
    skip
}

#define STEP(what) atomic { if :: what; touched = 255 :: MAY_DIE -> DIE fi }

proctype Replacer()
{
    VIEW(1);
    byte estimate;
    STEP(config[OLD] = FROZEN);
    seen = FROZEN;
#ifndef MUTANT_NO_WAIT_FOR_INTENTS
    if                                               /* wait_lane */
    :: intent[OLD] == 0
    :: atomic { intent[OLD] == 1 -> estimate = REJECT; printf("the sender is overdue\n") }
        WALK(true);
        if
        :: estimate == ACCEPT -> IN_EVERY_COPY(flag[c] = 1)
        :: else
        fi
    fi;
#endif
#ifdef MUTANT_COUNTS_BEFORE_IT_IS_FULL
    linked = true;
    STEP(config[NEW] = NEXT; config[OLD] = (config[OLD] == FROZEN -> NEXT : config[OLD]));
#endif
    STEP(intent[NEW] = intent[OLD]);
    STEP(cell[NEW] = cell[OLD]);
    STEP(data[NEW] = data[OLD]);
    STEP(flag[NEW] = flag[OLD]);
#ifndef MUTANT_COUNTS_BEFORE_IT_IS_FULL
    STEP(config[NEW] = FROZEN; linked = true);
    if
    :: atomic { config[OLD] == FROZEN -> config[OLD] = NEXT; touched = 255; printf("the new copy counts\n") };
        STEP(config[NEW] = NEXT)
    :: atomic { config[OLD] != FROZEN -> linked = false; printf("the replacer was overruled\n") }
    fi;
#endif
    finished = finished | BIT(me);
dead:
    skip
}

proctype Killer()
{
end:
    atomic { STAND_ALONE -> gone = true; touched = 255; printf("the old copy dies\n") }
}

#define HOME(p) (HAS(finished | killed, p))
proctype Judge()
{
end:
    atomic {
        timeout ->
        assert(HOME(0) && HOME(1));  /* bounded time: nobody is stuck */
        assert(!accepted || (HOME(2) && (NR < 2 || HOME(3))))        /* validity, consensus */
    }
}

init {
    atomic {
        run Sender(); run Replacer(); run Receiver(0);
        if :: NR > 1 -> run Receiver(1) :: else fi;
        run Killer(); run Judge()
    }
}
