/* scripts_send.c: senders. Their lane has two slots, so the third message goes round the ring. */
#include "actor.h"

#define SHORT FROM_NOW(MS)

void open_domain_only(struct actor *a)
{
    must(a, "open the domain", sc_domain_open(a->name, PATIENCE, &a->domain));
}

void open_sender(struct actor *a)
{
    open_domain_only(a);
    must(a, "open a sender", sc_sender_open(a->domain, PATIENCE, &a->sender));
}

/* A copy that fails must not keep anyone from sending. */
static void send_one(struct actor *a, uint32_t boxes)
{
    struct sc_receipt receipt;
    int rc = send_as(a->n, a->sender, a->who, boxes, PATIENCE, &receipt);
    must(a, "send", rc);
}

void send_two(struct actor *a)
{
    send_one(a, TO_A);
    send_one(a, TO_A);
}

void open_and_send(struct actor *a)
{
    open_sender(a);
    send_two(a);
}

void open_multi(struct actor *a)
{
    open_sender(a);
    send_one(a, TO_A | TO_B);
    send_one(a, TO_A | TO_B);
}

void send_first(struct actor *a)
{
    open_sender(a);
    send_one(a, TO_A);
}

void send_more(struct actor *a) { send_two(a); }

void send_batch(struct actor *a)
{
    int rc = send_pair_as(a->n, a->sender, a->who, TO_A);
    must(a, "send a batch", rc);
}

void send_multi(struct actor *a)
{
    send_one(a, TO_A | TO_B);
    send_one(a, TO_B);
}

/* What the application writes into a loan is written in pieces too. A loan in a copy that dies is
 * lost, and its sender is told. */
void send_loan(struct actor *a)
{
    CRASH_SITE(here, "loan");
    void *loan;
    struct sc_receipt receipt;
    int rc = sc_loan(a->sender, BOX_A, sizeof(struct body), PATIENCE, &loan);
    must(a, "loan", rc);
    struct sent *sent = note_try(a->n, a->who, TO_A, 0);
    struct body body = body_of(a->who, sent->number);
    crash_copy(&here, loan, &body, sizeof body);
    rc = sent->rc = sc_loan_send(a->sender, sizeof body, PATIENCE, &receipt);
    if (rc != SC_COPY_FAILED)
        must(a, "send a loan", rc);
}

/* Nobody reads meanwhile: the third one finds the lane full. */
void send_full(struct actor *a)
{
    send_two(a);
    struct sc_receipt receipt;
    int rc = send_as(a->n, a->sender, a->who, TO_A, SHORT, &receipt);
    if (rc != SC_FULL)
        actor_fail(a, rc, "send to a full lane: %s", error_name(rc));
}

void close_sender(struct actor *a)
{
    sc_sender_free(a->sender);
    sc_domain_close(a->domain);
    a->sender = NULL;
    a->domain = NULL;
}

/* Every lane is taken, one by a dead sender, in whatever state it left it; perhaps full. */
void take_dead_lane(struct actor *a)
{
    must(a, "open a sender in a dead one's place", sc_sender_open(a->domain, PATIENCE, &a->sender));
    struct sc_receipt receipt;
    int rc = send_as(a->n, a->sender, a->who, TO_A, SHORT, &receipt);
    if (rc != SC_FULL)
        must(a, "send in a dead one's lane", rc);
}
