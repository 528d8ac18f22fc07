/* send_intent.c: a sender's intent, in every copy, around every operation.
 *
 * It tells receivers of `eager` that a message may be on its way (send_eager.c), and in every
 * protocol it tells whoever replaces a copy that a sender is at work (replace.c).
 *
 * [E1] intent before the clock (clock.h K1), against the receiver's clock before the intent (K2).
 * [E4] a-flags before the lowered intent: release -> acquire in receive_eager.c.
 * `low` is an earlier reading of the clock, or the last timestamp: whatever is stamped from now on
 * is later. It only grows, so an old one read by chance is a lower bound as well.
 *
 * [E5] `boxes` before the intent, and not before the last operation's intent was lowered.
 */
#include "sender.h"

static void publish_intent(struct sc_sender *s, uint64_t boxes)
{
    for (int i = 0; i < s->view.count; i++) {
        struct sender_record *rec = sender_of(s->view.copy[i], s->lane);
        STORE_RELEASE(&rec->boxes, seal(boxes));             /* [E5] */
        STORE_RELEASE(&rec->low, seal(s->low));
        STORE_RELEASE(&rec->intent, seal(intent_busy(s->op))); /* [E1] [E5] */
    }
}

void intent_lower(struct sc_sender *s)
{
    for (int i = 0; i < s->view.count; i++)
        STORE_RELEASE(&sender_of(s->view.copy[i], s->lane)->intent,
                      seal(intent_done(s->op)));             /* [E4] */
}

/* Raises the intent in every copy of a configuration that is not frozen. */
int intent_raise(struct sc_sender *s, const struct operation *op)
{
    s->op++;
    for (;;) {
        publish_intent(s, op->boxes);
        FENCE_SEQ_CST();                                     /* [E1]; also pairs with replace.c */
        if (view_is_current(&s->view) && !config_frozen(s->view.config))
            return 0;
        int rc = view_refresh(&s->view);
        if (rc) {
            intent_lower(s);
            return rc;
        }
        if (config_frozen(s->view.config)) {
            intent_lower(s);
            if ((rc = view_wait_thawed(&s->view, pin(op->deadline))))
                return rc;
            s->op++;
        }
    }
}
