/* scripts_receive.c: receivers, joiners, leavers. */
#include "actor.h"

void join(struct actor *a)
{
    must(a, "open the domain", sc_domain_open(a->name, PATIENCE, &a->domain));
    must(a, "join", sc_receiver_open(a->domain, BOX_A, PATIENCE, &a->receiver));
    sc_receiver_wait_style(a->receiver, 0);
}

void receive_two(struct actor *a)
{
    for (int i = 0; i < 2; i++)
        if (actor_receive(a, PATIENCE))
            actor_fail(a, SC_TIMEOUT, "receive: nothing came");
}

void receive_three(struct actor *a)
{
    receive_two(a);
    actor_receive(a, FROM_NOW(2 * MS));
}

void receive_batch(struct actor *a)
{
    struct sc_message m[4];
    struct body bodies[4];
    int count = sc_receive_many(a->receiver, bodies, sizeof bodies, PATIENCE, m, 4);
    must(a, "receive many", count);
    for (int i = 0; i < count; i++)
        note_got(a->n, EAR_ROLE, m[i].timestamp, m[i].sender, (char *)bodies + m[i].offset,
                 m[i].bytes);
}

/* A view of a copy that dies may show anything; its reader is told when it gives it back. That
 * message is lost to it, so it is compared with the others from the next one on. */
void receive_views(struct actor *a)
{
    for (int i = 0; i < 2; i++) {
        struct sc_message m;
        struct body body;
        const void *data;
        must(a, "view", sc_view(a->receiver, PATIENCE, &m, &data));
        memcpy(&body, data, sizeof body);
        int rc = sc_view_release(a->receiver);
        if (rc == SC_COPY_FAILED) {
            a->n->ear[EAR_ROLE].count = 0;
            continue;
        }
        must(a, "release a view", rc);
        note_got(a->n, EAR_ROLE, m.timestamp, m.sender, &body, m.bytes);
    }
}

void receive_and_wait(struct actor *a)
{
    receive_two(a);
    if (actor_receive(a, FROM_NOW(2 * MS)) != SC_TIMEOUT)
        actor_fail(a, 0, "receive from an empty mailbox got something");
}

void join_now(struct actor *a)
{
    join(a);
    actor_receive(a, FROM_NOW(MS));
}

/* Alive after all: goes on receiving to the end, and is compared with the others. */
void listen_on(struct actor *a)
{
    struct ear *e = &a->n->ear[EAR_ROLE];
    for (;;) {
        uint32_t last = a->n->goodbye_number;
        for (uint32_t i = 0; a->n->goodbye && i < e->count; i++)
            if (e->got[i].who == WHO_FIRST && e->got[i].number == last)
                return;
        actor_receive(a, FROM_NOW(2 * MS));
    }
}

void leave_group(struct actor *a)
{
    must(a, "leave", sc_receiver_leave(a->receiver));
    while (actor_receive(a, PATIENCE) == 0)
        ;
    sc_receiver_free(a->receiver);
    sc_domain_close(a->domain);
    a->receiver = NULL;
    a->domain = NULL;
}
