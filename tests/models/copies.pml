/* copies.pml: what the models of the untimed core share: copies that rot, views, walks, the clock.
 *
 * A rotten copy is worse than a dead one: each access to it may fail or succeed, independently
 * (truncated: some pages are left; overwritten: some seals still hold). An access that fails is
 * noticed by the process that made it (SIGBUS, seal.h) and by nobody else, so knowledge of a
 * failure is private until view_refresh has told it. A process that lost a store to a copy loses
 * all its later ones there too (guard.c puts private zero pages in its place). At most ROTS
 * copies rot, at any step. A dead copy is one where every access fails, so it is included.
 *
 * A copy rots, and a process dies, at the step where that makes a difference: at an access, or
 * instead of a store. Earlier moments could not be told from it by anybody.
 *
 * A load or store of one word in one copy is one step. carry() (agree.c) is one step: it takes
 * effect at its successful CAS, or at the load that made it adopt. Two loops over copies are one
 * step: view_is_current, and the first half of view_refresh (gather). The words they read only
 * grow, so a look at all of them at the moment of the first look knows less than the code
 * does, and whatever the code passes, the model passes too.
 */
#define BIT(i) (1 << (i))
#define ALL (BIT(NC) - 1)
#define HAS(set, i) (((set) >> (i)) & 1)

#define UNDECIDED 0
#define ACCEPT 1
#define REJECT 2
#define BUSY(op) ((op) << 1)
#define DONE(op) (((op) << 1) | 1)
#define CELL(op, decision) (((op) << 2) | (decision))

byte rotten;                       /* copies on which an access may fail */
byte killed;                       /* processes */
byte told[NC];                     /* `failed` in the segment header of each copy */
byte touched;                      /* ghost: receivers for whom something has changed */

#if ROTS == 0
#define MAY_ROT(i) false
#elif ROTS == 1
#define MAY_ROT(i) (HAS(rotten, i) || !rotten)
#else
#define MAY_ROT(i) (HAS(rotten, i) || !(rotten & (rotten - 1)))
#endif
#define MAY_DIE (HAS(KILLS, me) && !killed)
#define DIE killed = BIT(me); printf("process %d dies\n", me); goto dead
#define ROT rotten = rotten | BIT(c); gone = gone | BIT(c); printf("process %d finds copy %d dead\n", me, c)

/* What a process knows, struct view: local variables of every proctype that walks. */
#define VIEW(who) byte me = who, view = ALL, gone = 0, c = 0, lost

#define STORE(what) \
    if \
    :: !HAS(gone, c) -> what \
    :: !HAS(gone, c) && MAY_ROT(c) -> ROT \
    :: HAS(gone, c) \
    :: MAY_DIE -> DIE \
    fi

#define LOAD(what) \
    if \
    :: !HAS(gone, c) -> what \
    :: !HAS(gone, c) && MAY_ROT(c) -> ROT \
    :: HAS(gone, c) \
    fi

#define FROM(i) (HAS(view, i) || (i) >= NC -> (i) : (HAS(view, (i) + 1) || (i) + 1 >= NC -> (i) + 1 : (i) + 2))

/* `what` in every copy of the view, one after the other. */
#define IN_EVERY_COPY(what) \
    c = FROM(0); \
    do \
    :: atomic { STORE(what); c = FROM(c + 1); if :: c >= NC -> c = 0; break :: else fi } \
    od

#ifdef MUTANT_SILENT_SKIP
#define SHOWS(i) (!HAS(view, i) || !(told[i] & view))
#else
#define SHOWS(i) (!HAS(view, i) || told[i] == (ALL & ~view))
#endif
#if ROTS == 0
#define CURRENT true
#elif NC <= 2
#define CURRENT (!(gone & view) && SHOWS(0) && SHOWS(1))
#else
#define CURRENT (!(gone & view) && SHOWS(0) && SHOWS(1) && SHOWS(2))
#endif

#ifdef MUTANT_SILENT_SKIP
#define TELL skip
#else
#define TELL told[c] = told[c] | lost; touched = 3
#endif

/* view_refresh: gather; list; tell every copy that is left, before anything else is done. */
inline view_refresh()
{
    do
    :: atomic {
            lost = gone; c = 0;
            do
            :: c < NC -> LOAD(lost = lost | told[c]); c++
            :: else -> break
            od;
            gone = gone | lost; lost = gone; view = ALL & ~lost;
            assert(view)  /* the model: one copy never fails */
        }
        IN_EVERY_COPY(TELL);
        if
        :: atomic { !(gone & view) -> lost = 0; break }
        :: else
        fi
    od
}

#ifdef MUTANT_NO_ADOPTION
#define ADOPT(cell) estimate = ((cell) >> 2 == estimate >> 2 -> estimate : cell)
#else
#define ADOPT(cell) estimate = cell
#endif

/* One copy's turn of a walk over decision cells. */
#define CARRY(cell) \
    if \
    :: ((cell) >> 2) < (estimate >> 2) -> \
        if :: cell = estimate :: MAY_DIE -> DIE fi \
    :: else -> ADOPT(cell) \
    fi

/* walk() of agree.c over the cells of one lane; `estimate` is the proposal, then the decision. */
inline walk(cell_at)
{
    c = FROM(0);
    do
    :: atomic { c < NC && !HAS(gone, c) -> LOAD(CARRY(cell_at)); if :: !HAS(gone, c) -> c = FROM(c + 1) :: else fi }
    :: atomic { c >= NC && CURRENT -> c = 0; walked = 0; break }
#if ROTS > 0
    :: atomic { (c < NC && HAS(gone, c)) || (c >= NC && !CURRENT) -> walked = c }
        view_refresh();
        c = FROM(walked)
#endif
    od
}

/* The clock. It ticks only past a timestamp that was handed out: other ticks change nothing that
 * anybody can compare. Two reads may give the same value. */
byte now = 1, newest;                                /* newest: greatest timestamp so far */
#define MAY_TICK (newest >= now)
