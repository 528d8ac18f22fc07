/* evidence.c: see evidence.h. */
#include "evidence.h"

#include <stdio.h>
#include <unistd.h>

#define OVERRUNS_ASKED 64

static const enum lateness lateness_of[] = {
    [SC_SEND_LATE] = LATE_SEND,     [SC_SEND_REJECTED] = LATE_SEND, [SC_DELIVERY_LATE] = LATENESSES,
    [SC_DECISION_LATE] = LATE_VOTE, [SC_PEER_LATE] = LATE_PEER,     [SC_PEER_EVICTED] = LATE_PEER,
};

static void weigh(const struct sc_overrun *all, int count)
{
    for (int i = 0; i < count; i++) {
        enum lateness what = lateness_of[all[i].kind];
        pid_t who = what == LATE_PEER ? (pid_t)all[i].timestamp : getpid();
        if (what != LATENESSES && (int64_t)all[i].took_ns > 0)
            gauge_late(what, who, all[i].took_ns, all[i].bound_ns);
    }
}

void evidence_of_sender(sc_sender *sender)
{
    struct sc_overrun all[OVERRUNS_ASKED];
    if (sender)
        weigh(all, sc_sender_overruns(sender, all, OVERRUNS_ASKED));
}

void evidence_of_receiver(sc_receiver *receiver)
{
    struct sc_overrun all[OVERRUNS_ASKED];
    if (receiver)
        weigh(all, sc_receiver_overruns(receiver, all, OVERRUNS_ASKED));
}

static void figures_of_places(struct world *w)
{
    for (int box = BOX_A; box <= BOX_B; box++)
        for (int slot = 0; slot < PLACES; slot++) {
            struct sc_receiver_stats s;
            if (sc_mailbox_receiver_stats(w->server, box, slot, &s) || !s.held)
                continue;
            w->n->violations += s.violations;
            if (s.violations || s.late_rounds || s.late_peers)
                note_figure(w->n, "place %d.%d: %u violations, %u late rounds, %u late peers", box,
                            slot, (unsigned)s.violations, (unsigned)s.late_rounds,
                            (unsigned)s.late_peers);
        }
}

static void figures_of_lanes(struct world *w)
{
    for (int lane = 0; lane < LANES; lane++) {
        struct sc_sender_stats s;
        if (sc_domain_sender_stats(w->server, lane, &s) == 0 && (s.late || s.rejected))
            note_figure(w->n, "lane %d: %u late, %u rejected", lane, (unsigned)s.late,
                        (unsigned)s.rejected);
    }
}

void evidence_of_world(struct world *w)
{
    gauge_read();
    evidence_of_sender(w->first);
    for (int ear = 0; ear < EARS; ear++)
        evidence_of_receiver(w->ear[ear]);
    if (w->server) {
        figures_of_places(w);
        figures_of_lanes(w);
    }
}
