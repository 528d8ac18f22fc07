/* crash.c: deciding on one message in the first protocol (paper §3.3).
 *
 * "if D /= undefined take it, else if nothing is taken yet take the a-flag; D := what was taken",
 * copy by copy, each not before its share of time, with an extra delay after a failed copy: so
 * that nobody overtakes a receiver that decided just before the copy died.
 *
 * DEVIATION: the paper waits delta_d + epsilon after a dead copy. A receiver that decided in that copy
 * at the beginning of its share may write the next one at the very end of the following share,
 * 2 delta_d later: one that found the copy dead just after must wait that long (docs/decisions/0010).
 *
 * This protocol is right only if senders and receivers keep their bounds. Where we can see that
 * somebody did not, `violations` grows.
 */
#include "core.h"

#define SHORT_WAIT_NS 60000          /* below this, sleeping costs more than it saves */

static void wait_until(uint64_t when)
{
    if (sys_now() + SHORT_WAIT_NS < when)
        sys_sleep_until(when - SHORT_WAIT_NS / 2);
    while (sys_now() < when)
        cpu_relax();
}

/* In one copy. Returns SC_COPY_FAILED if it is dead. */
static int decide_in(struct view *view, struct copy *copy, int box, uint32_t lane, uint64_t p,
                     enum decision *taken, uint64_t *violations)
{
    struct slot *slot = slot_at(view->domain, copy, box, lane, p);
    uint64_t found = LOAD_ACQUIRE(&slot->decision);
    for (;;) {
        if (!seal_ok(found))
            return SC_COPY_FAILED;
        uint64_t value = sealed_value(found);
        if (decision_ahead(value, p)) {              /* over long ago; we are a member no more */
            if (*taken == UNDECIDED)
                *taken = REJECT;
            return 0;
        }
        enum decision d = decision_is_for(value, p) ? (enum decision)(value & 3) : UNDECIDED;
        if (d != UNDECIDED) {
            if (*taken == UNDECIDED)
                *taken = d;
            else if (*taken != d)
                ++*violations;
            return 0;
        }
        enum decision wanted = *taken;
        if (wanted == UNDECIDED) {
            uint64_t accepted = LOAD_ACQUIRE(&slot->accepted);
            if (!seal_ok(accepted))
                return SC_COPY_FAILED;
            wanted = sealed_value(accepted) == p + 1 ? ACCEPT : REJECT;
        }
        if (CAS_ACQ_REL(&slot->decision, &found, seal(decision_tag(p) | wanted))) {
            *taken = wanted;
            return 0;
        }
    }
}

int crash_decide(struct view *view, int box, uint32_t lane, uint64_t position,
                 enum decision *decided, uint64_t *violations)
{
    const struct sc_bounds *bounds = &view->domain->params.bounds;
    uint64_t when = sys_now(), serial = 0;
    *decided = UNDECIDED;
    for (;;) {
        struct copy *copy;
        while ((copy = view_next(view, serial))) {
            int rc = decide_in(view, copy, box, lane, position, decided, violations);
            when += rc ? crash_delay_ns(bounds) : bounds->decide_ns;
            if (rc && (rc = view_doubt(view, copy, box)))
                return rc;
            serial = copy->serial + 1;
            wait_until(when);
        }
        FENCE_SEQ_CST();                             /* [A2] as in agree.c */
        int rc = view_is_current(view) ? 0 : view_refresh(view);
        if (rc == 0 && config_frozen(view->config))
            rc = view_wait_thawed(view, view_deadline(view));
        if (rc)
            return rc;
        if (!view_next(view, serial))
            return *decided == UNDECIDED ? SC_LOST : 0;
    }
}
