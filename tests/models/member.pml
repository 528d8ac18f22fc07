/* member.pml: joining and leaving as a barrier, and slots that are used again (paper A.1, `eager`).
 *
 *   Sender    sc_send: lane_wait_room, lane_room, lane_members (lane.c), intent, stamp, a-flag
 *   Receiver  join: place_cursors, LIVE, `members`, entry time, barrier; receive; sc_receiver_leave:
 *             exit time, reading what is older, has_left (join.c, receive.c); closing
 *   Clock     ticks past every timestamp that was handed out, at any moment
 *
 * One copy: what the copies agree on is the business of eager.pml and replace.pml. One lane of CAPACITY
 * slots; a message is its timestamp. Receivers have joined before, or JOINS: they join while messages
 * are sent. Store buffers are left out (the pair [L1] of lane.c has fences on both sides).
 *
 * Claim 1 of A.1.1: whatever is sent after a receiver has joined, and before it leaves, has a timestamp
 * between its entry and exit times. Claim 2: from the exit time on nothing is for it, and nobody waits
 * for it once it is gone. A stamp is the clock's or the last one + 1; that may be ahead of the clock, but not
 * any more when the message is flagged: a send takes longer than a nanosecond. Validity: whatever is for it, it reads before it is gone. Integrity: nobody's
 * slot is used again before it has read it. The first and the last are asserted on the way; validity, and
 * that everybody gets done, by Judge, when nothing can move any more.
 */
#ifndef NR
#define NR 1
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef JOINS
#define JOINS 1                    /* set of receivers that are not there from the start */
#endif
#ifndef LEAVES
#define LEAVES 1                   /* set of receivers that leave */
#endif
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define LATEST 9
#define NEVER 255

byte now = 1, newest;              /* newest: greatest time that somebody holds */
byte flag[CAPACITY], slot[CAPACITY];               /* position + 1; timestamp */
bool intent;
byte live, members, cursor[2];
byte entry[2], exit_at[2];         /* NEVER: not yet */

/* Ghosts. */
byte stamped[MESSAGES], taken[2], joined, leaving, left;     /* sets: of messages, of receivers */
byte finished;
bool touched;                      /* somebody has moved on since the sender looked */

#define NOTE(when) newest = ((when) > newest -> (when) : newest)

proctype Clock()
{
end:
    do
    :: atomic { now <= newest && now < LATEST -> now++ }
    od
}

proctype Sender()
{
    byte at, limit, counted = NEVER, known, list, r, least, ts, expected;
    do
    :: at == MESSAGES -> break
    :: at < MESSAGES ->
        do                                           /* lane_wait_room */
        :: atomic { at < limit -> r = 0; known = 0; least = 0; break }
        :: at >= limit ->
            do                                       /* lane_members */
            :: atomic { members == counted -> break }
            :: atomic { members != counted -> known = members };
                atomic { list = live; counted = known }
            od;
            atomic { r = 0; least = at }
            do
            :: atomic { r < NR -> if :: HAS(list, r) && cursor[r] < least -> least = cursor[r] :: else fi; r++ }
            :: atomic { r == NR -> limit = least + CAPACITY; break }
            od;
            if
            :: at < limit || members != counted
            :: atomic { at >= limit && touched -> touched = false }
            fi
        od;
        atomic { expected = joined & ~leaving; intent = true }
        atomic {
            ts = (now > ts -> now : ts + 1); NOTE(ts);
            printf("message %d is stamped %d\n", at, ts);
            r = 0;
            do
            :: r < NR -> assert(!HAS(expected, r) || (entry[r] <= ts && (HAS(leaving, r) || ts < exit_at[r]))); r++  /* join: whoever is expected to read it is a member */
            :: r == NR -> r = 0; expected = 0; break
            od
        }
        slot[at % CAPACITY] = ts;
        now >= ts;
        atomic { flag[at % CAPACITY] = at + 1; stamped[at] = ts; at++ }
        intent = false
    od;
    finished = true
}

/* lane_tail: the first position that is not taken. */
#define PLACE_CURSOR \
    do \
    :: atomic { flag[p % CAPACITY] > p -> p = flag[p % CAPACITY] } \
    :: atomic { flag[p % CAPACITY] <= p -> break } \
    od

#define FOR_ME(ts) (entry[r] <= (ts) && (ts) < exit_at[r])

proctype Receiver(byte r)
{
    byte p, t0, ts, seen;
    bool down;
    if
    :: HAS(JOINS, r) ->
        PLACE_CURSOR;
        cursor[r] = p;
#ifdef MUTANT_COUNT_BEFORE_LIVE
        members++;
        live = live | BIT(r);
#else
        live = live | BIT(r);
        members++;
#endif
#ifndef MUTANT_NO_SECOND_LOOK
        PLACE_CURSOR;
#endif
        atomic { entry[r] = now + 1; NOTE(now + 1); printf("receiver %d: entry %d, position %d\n", r, now + 1, p) }
        atomic { cursor[r] = p; touched = true }
#ifndef MUTANT_JOIN_WITHOUT_BARRIER
        now >= entry[r];
#endif
        atomic { joined = joined | BIT(r); printf("receiver %d has joined\n", r) }
    :: else -> atomic { joined = joined | BIT(r); entry[r] = 0 }
    fi;
    do
    :: t0 = now;                                     /* a look: clock, intent, lane, in this order */
#ifdef MUTANT_INTENT_NOT_AWAITED
        down = true;
#else
        down = !intent;
#endif
        atomic { seen = flag[p % CAPACITY]; assert(seen <= p + 1) }  /* integrity: no later lap */
        if
        :: seen == p + 1 ->
            ts = slot[p % CAPACITY];
            atomic {
                assert(flag[p % CAPACITY] == p + 1); /* integrity: not written again meanwhile */
                if
                :: FOR_ME(ts) -> taken[r] = taken[r] | BIT(p); printf("receiver %d takes message %d\n", r, p)
                :: else
                fi;
                p++; ts = 0
            }
            atomic { cursor[r] = p; touched = true }
        :: atomic { seen <= p && HAS(leaving, r) && down && t0 > exit_at[r] -> break }   /* has_left */
        :: atomic { seen <= p && HAS(LEAVES & ~leaving, r) ->
                exit_at[r] = now + 1; NOTE(now + 1); leaving = leaving | BIT(r);
                printf("receiver %d: exit %d\n", r, now + 1);
#ifdef MUTANT_LEAVES_AT_ONCE
                break
#endif
            }
        :: atomic { seen <= p && (!HAS(leaving, r) || !down || t0 <= exit_at[r]) ->
                t0 = 0; down = false; seen = 0
            }
end:        if                                       /* until a look can show something else */
            :: flag[p % CAPACITY] > p
            :: HAS(LEAVES & ~leaving, r)
            :: HAS(leaving, r) && !intent && now > exit_at[r]
            fi
        fi
    od;
    live = live & ~BIT(r);
    atomic { members++; left = left | BIT(r); touched = true; printf("receiver %d is gone\n", r) }
}

#define HAD(r, m) (!stamped[m] || stamped[m] < entry[r] || stamped[m] >= exit_at[r] || HAS(taken[r], m))
proctype Judge()
{
    byte m;
end:
    atomic {
        timeout ->
        assert(finished);  /* bounded time: nobody is stuck */
        do
        :: m < MESSAGES -> assert(HAD(0, m) && (NR < 2 || HAD(1, m))); m++           /* validity */
        :: m == MESSAGES -> break
        od
    }
}

init {
    atomic {
        byte i;
        for (i : 0 .. 1) {
            entry[i] = NEVER; exit_at[i] = NEVER;
            if :: i < NR && !HAS(JOINS, i) -> live = live | BIT(i); members++ :: else fi
        }
        i = 0;
        run Clock(); run Sender(); run Receiver(0);
        if :: NR > 1 -> run Receiver(1) :: else fi;
        run Judge()
    }
}
