/* rt_work.c: mailbox operations as native tasks: send what the application last put, receive into
 * a ring, take one round of decisions. None of them waits for the application.
 *
 * [B1] outbox: three buffers; `latest` (release) by the application -> acquire by the task. The task
 *      stores what it reads (`reading`), then looks at `latest` again; the application stores
 *      `latest`, then looks at `reading`. Both fence between, so one of them sees the other.
 * [B2] inbox: `tail` (release) by the task -> acquire by the application; `head` the other way.
 */
#include <stdlib.h>

#include "receiver.h"
#include "rt.h"

struct sc_rt_outbox {
    struct sc_sender *sender;
    int box;
    uint64_t bytes_max;
    word_t latest;                                   /* number of the last put; 0: none */
    word_t reading;                                  /* number that is being sent; 0: none */
    word_t sent;
    uint64_t bytes[3];
    unsigned char *data[3];
};

int sc_rt_outbox_open(sc_sender *sender, int box, uint64_t bytes_max, sc_rt_outbox **out)
{
    struct sc_rt_outbox *o = calloc(1, sizeof *o);
    if (!o)
        return -ENOMEM;
    o->sender = sender;
    o->box = box;
    o->bytes_max = bytes_max;
    for (int i = 0; i < 3; i++)
        if (!(o->data[i] = calloc(1, bytes_max ? bytes_max : 1))) {
            sc_rt_outbox_free(o);
            return -ENOMEM;
        }
    *out = o;
    return 0;
}

void sc_rt_outbox_free(sc_rt_outbox *o)
{
    for (int i = 0; o && i < 3; i++)
        free(o->data[i]);
    free(o);
}

/* One application thread at a time. Three buffers: the latest, the one that is being sent, and a
 * free one, so that neither side waits. */
int sc_rt_outbox_put(sc_rt_outbox *o, const void *data, uint64_t bytes)
{
    if (bytes > o->bytes_max)
        return SC_TOO_LARGE;
    uint64_t next = LOAD_RELAXED(&o->latest) + 1;
    FENCE_SEQ_CST();                                 /* [B1] latest stored, then reading read */
    uint64_t reading = LOAD_ACQUIRE(&o->reading);
    if (reading && reading % 3 == next % 3)
        next++;                                      /* that buffer is in use: take the one after */
    memcpy(o->data[next % 3], data, bytes);
    o->bytes[next % 3] = bytes;
    STORE_RELEASE(&o->latest, next);                 /* [B1] */
    return 0;
}

uint64_t sc_rt_outbox_sent(sc_rt_outbox *o) { return LOAD_ACQUIRE(&o->sent); }

int sc_rt_send(void *context, uint64_t deadline)
{
    struct sc_rt_outbox *o = context;
    struct sc_receipt receipt;
    uint64_t number = LOAD_ACQUIRE(&o->latest);      /* [B1] */
    for (;;) {
        if (number == 0)
            return 0;
        STORE_RELEASE(&o->reading, number);
        FENCE_SEQ_CST();                             /* [B1] */
        uint64_t now = LOAD_ACQUIRE(&o->latest);
        if (now == number)
            break;
        number = now;                                /* put meanwhile: that one, then */
    }
    int rc = sc_send(o->sender, UINT64_C(1) << o->box, o->data[number % 3], o->bytes[number % 3],
                     deadline, &receipt);
    STORE_RELEASE(&o->reading, 0);
    if (rc == 0)
        STORE_RELEASE(&o->sent, LOAD_RELAXED(&o->sent) + 1);
    return rc;
}

struct sc_rt_inbox {
    struct sc_receiver *receiver;
    uint64_t bytes_max;
    uint32_t slots;
    word_t head, tail;                               /* [B2] */
    struct sc_message *messages;
    unsigned char *data;
};

int sc_rt_inbox_open(sc_receiver *receiver, uint64_t bytes_max, uint32_t slots, sc_rt_inbox **out)
{
    if (slots == 0 || slots > CAPACITY_MAX)
        return SC_INVALID;
    struct sc_rt_inbox *in = calloc(1, sizeof *in);
    if (!in)
        return -ENOMEM;
    in->receiver = receiver;
    in->bytes_max = bytes_max;
    in->slots = slots;
    in->messages = calloc(slots, sizeof *in->messages);
    in->data = calloc(slots, bytes_max ? bytes_max : 1);
    if (!in->messages || !in->data) {
        sc_rt_inbox_free(in);
        return -ENOMEM;
    }
    *out = in;
    return 0;
}

void sc_rt_inbox_free(sc_rt_inbox *in)
{
    if (in) {
        free(in->messages);
        free(in->data);
    }
    free(in);
}

/* Takes what is there. A full ring leaves the rest in the mailbox: nothing is lost. */
int sc_rt_receive(void *context, uint64_t deadline)
{
    struct sc_rt_inbox *in = context;
    uint64_t tail = LOAD_RELAXED(&in->tail);
    while (tail - LOAD_ACQUIRE(&in->head) < in->slots && sys_now() < deadline) { /* [B2] */
        uint64_t at = tail % in->slots;
        int rc = sc_receive(in->receiver, in->data + at * in->bytes_max, in->bytes_max, sys_now(),
                            &in->messages[at]);
        if (rc == SC_TIMEOUT)
            return 0;
        if (rc < 0)
            return rc;
        STORE_RELEASE(&in->tail, ++tail);            /* [B2] */
    }
    return 0;
}

int sc_rt_inbox_take(sc_rt_inbox *in, void *data, uint64_t size, struct sc_message *out)
{
    uint64_t head = LOAD_RELAXED(&in->head);
    if (LOAD_ACQUIRE(&in->tail) == head)             /* [B2] */
        return SC_TIMEOUT;
    *out = in->messages[head % in->slots];
    if (out->bytes > size)
        return SC_TOO_LARGE;
    memcpy(data, in->data + head % in->slots * in->bytes_max, out->bytes);
    STORE_RELEASE(&in->head, head + 1);              /* [B2] */
    return 0;
}

int sc_rt_decide(void *context, uint64_t deadline)
{
    return decider_round(context, deadline);         /* bounded by the number of slots */
}

int sc_rt_burn(void *context, uint64_t deadline)
{
    const uint64_t *wanted = context;                /* ns; 1 if it does not care for deadlines */
    const uint64_t end = sys_now() + wanted[0];
    while (sys_now() < end)
        if (!wanted[1] && sys_now() >= deadline)
            return SC_TIMEOUT;
    return 0;
}
