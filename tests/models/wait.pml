/* wait.pml: the three store-load pairs of the core, on processors with store buffers (TSO).
 *
 *   Sleeper, Waker    [W1] wait.c: bell_arm, look again, futex_wait; publish, fence, ring
 *   Stamper, Looker   [K1] [K2] clock.h: intent, fence, clock; clock, intent, lane
 *   Freezer, Starter  [E1] send_intent.c against replace.c: intent, fence, configuration;
 *                     configuration, fence, intent
 *
 * Each process has a buffer: its stores become visible later, in their order, at any moment. A
 * fence or a locked instruction waits for the buffer to be empty. A load sees the process's own
 * newest store, else memory. That is all that x86 does; on weaker processors the same fences
 * stand in the same places, and the acquire and release pairs are C11's business, not shown here.
 *
 * The sleeper sleeps without a time limit here, though in the core no sleep is longer than the
 * polling delay: so a lost wake-up is a deadlock, which spin finds.
 */
#ifdef MUTANT_NO_FENCE_BEFORE_RING
#define FENCE_RING
#else
#define FENCE_RING fence()
#endif
#ifdef MUTANT_NO_FENCE_AFTER_INTENT
#define FENCE_INTENT
#else
#define FENCE_INTENT fence()
#endif
#ifdef MUTANT_NO_FENCE_AFTER_FREEZE
#define FENCE_FREEZE
#else
#define FENCE_FREEZE fence()
#endif

#define WORDS 6
#define FLAG 0                     /* a-flag, or whatever the sleeper waits for */
#define BELL 1
#define INTENT 2
#define LANE 3                     /* message in the lane */
#define CONFIG 4
#define STARTED 5
byte memory[WORDS];

/* A buffer of two stores is enough: nobody here has more under way. */
typedef Buffer { byte count, word[2], value[2] };
Buffer buffer[6];

inline store(w, v)
{
    atomic {
        buffer[me].count < 2 ->
        buffer[me].word[buffer[me].count] = w; buffer[me].value[buffer[me].count] = v;
        buffer[me].count++
    }
}

/* The own newest store, or memory. */
#define SEEN(w) \
    (buffer[me].count > 1 && buffer[me].word[1] == w -> buffer[me].value[1] : \
    (buffer[me].count > 0 && buffer[me].word[0] == w -> buffer[me].value[0] : memory[w]))

inline fence() { buffer[me].count == 0 }

proctype Drain(byte me)
{
end:
    do
    :: atomic {
            buffer[me].count > 0 ->
            memory[buffer[me].word[0]] = buffer[me].value[0];
            buffer[me].word[0] = buffer[me].word[1]; buffer[me].value[0] = buffer[me].value[1];
            buffer[me].count--; buffer[me].word[buffer[me].count] = 0; buffer[me].value[buffer[me].count] = 0
        }
    od
}

bool asleep;

/* await_run, sleep_once: bit 0 of the bell says that somebody may sleep, the rest counts. */
proctype Sleeper(byte me)
{
    byte armed;
    do
    :: SEEN(FLAG) == 1 -> break
    :: SEEN(FLAG) == 0 ->
#ifdef MUTANT_LOOK_BEFORE_ARMING
        if :: SEEN(FLAG) == 1 -> break :: else fi;
        atomic { fence(); armed = memory[BELL] | 1; memory[BELL] = armed }
#else
        atomic { fence(); armed = memory[BELL] | 1; memory[BELL] = armed }  /* FETCH_OR is locked */
        if :: SEEN(FLAG) == 1 -> break :: else fi;
#endif
        atomic { memory[BELL] == armed -> asleep = true; printf("the receiver sleeps\n") } unless { memory[BELL] != armed };
        !asleep
    od
}

/* set_flags, finish, ring. Two of them, as two senders. */
proctype Waker(byte me; bool publishes)
{
    byte found;
    if
    :: publishes -> store(FLAG, 1); printf("the sender sets the flag\n")
    :: else
    fi;
    FENCE_RING;
    found = SEEN(BELL);
    if
    :: found & 1 ->
        atomic { fence(); if :: memory[BELL] == found -> memory[BELL] = (found + 2) & 254 :: else fi }
        atomic { asleep = false; printf("a sender rings\n") }                /* futex_wake_all */
    :: else -> printf("a sender sees nobody asleep\n")
    fi
}

/* [K1] [K2]. The clock is read from a counter that all share. */
byte now = 1, stamped;
proctype Stamper(byte me)
{
    store(INTENT, 1);
    FENCE_INTENT;
    atomic { if :: now++ :: skip fi; stamped = now; printf("the sender is stamped %d\n", stamped) }
    store(LANE, 1);
    store(INTENT, 0)
}

proctype Looker(byte me)
{
    byte t0;
#ifdef MUTANT_CLOCK_AFTER_INTENT
    byte early = SEEN(INTENT);
#endif
    atomic { if :: now++ :: skip fi; t0 = now }
#ifdef MUTANT_CLOCK_AFTER_INTENT
    if
    :: early == 0 && SEEN(LANE) == 0 ->
#else
    if
    :: SEEN(INTENT) == 0 ->
        if
        :: SEEN(LANE) == 0 ->
#endif
            atomic {
                printf("the receiver read %d, saw no intent and no message\n", t0);
                assert(!stamped || stamped >= t0)  /* ordering: nothing earlier can come of this lane */
            }
#ifndef MUTANT_CLOCK_AFTER_INTENT
        :: else
        fi
#endif
    :: else
    fi
}

/* A sender and whoever replaces a copy: one of them sees the other. */
bool at_work, copying;
proctype Starter(byte me)
{
    store(STARTED, 1);
    FENCE_INTENT;
    if
    :: SEEN(CONFIG) == 0 -> atomic { at_work = true; assert(!copying); printf("the sender goes to work\n") }  /* no forgotten decision */
    :: else -> store(STARTED, 0); printf("the sender steps back\n")
    fi
}

proctype Freezer(byte me)
{
    store(CONFIG, 1);
    FENCE_FREEZE;
    if
    :: SEEN(STARTED) == 0 -> atomic { copying = true; assert(!at_work); printf("the replacer copies\n") }  /* no forgotten decision */
    :: else -> printf("the replacer waits for the sender\n")
    fi
}

init {
    atomic {
        run Drain(0); run Drain(1); run Drain(2);
#if PAIR == 1
        run Sleeper(0); run Waker(1, true); run Waker(2, false)
#elif PAIR == 2
        run Stamper(0); run Looker(1)
#else
        run Starter(0); run Freezer(1)
#endif
    }
}
