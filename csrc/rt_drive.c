/* rt_drive.c: many operations in a row, each timed and compared with its bound, and why when it was
 * broken: the microbenchmark of bounded completion time. In C, because Python's own pauses would be
 * all that is seen.
 *
 * A send is timed from the call to its return. A receive is timed from the call, or from when the
 * protocol allows the message to be taken (ts + Δs + ε in `crash`, ts + χ + ε in `timing`, its
 * timestamp in `eager`), whichever is later, to its return.
 */
#include <stdlib.h>

#include "receiver.h"
#include "rt.h"
#include "sender.h"

#define IDLE_NS UINT64_C(3000000000)                 /* nothing came for so long: it is over */
#define STOLEN_EVERY_NS UINT64_C(10000000)           /* the kernel counts stolen time in such ticks */

struct driver {
    struct sc_rt_drive *d;
    uint64_t *histogram;
    struct sc_sender *sender;
    struct sc_receiver *receiver;
    struct rt_runner runner;
    struct sc_rt rt;                                 /* only its view of stolen time is used */
    uint64_t look_for_stolen;
    unsigned char *data;
};

/* Before an operation, outside of what is timed: what the kernel counts from here on is why this one
 * is late, and nothing that happened to those before it. Returns the start. */
static uint64_t begin(struct driver *w)
{
    uint64_t now = sys_now();
    if (now >= w->look_for_stolen) {
        STORE_RELAXED(&w->rt.stolen_ticks, stolen_ticks());
        w->look_for_stolen = now + STOLEN_EVERY_NS;
    }
    runner_look(&w->runner);
    return sys_now();
}

#define WORST (sizeof ((struct sc_rt_drive *)0)->worst / sizeof (struct sc_rt_worst))

static void keep_worst(struct sc_rt_drive *d, uint64_t took, uint64_t causes)
{
    size_t place = WORST - 1;
    for (; place > 0 && took > d->worst[place - 1].took_ns; place--)
        d->worst[place] = d->worst[place - 1];
    d->worst[place] = (struct sc_rt_worst){took, causes};
}

static void count_miss(struct sc_rt_drive *d, uint64_t causes)
{
    d->misses++;
    for (uint32_t i = 0; i < SC_RT_CAUSES; i++)
        d->causes[i] += causes >> i & 1;
}

/* Why is asked of those that took too long or longest: a few system calls, after the operation. What
 * is to be explained is the time beyond the bound, or all of it where the bound was kept. */
static void count(struct driver *w, uint64_t took)
{
    struct sc_rt_drive *d = w->d;
    bool missed = took > d->bound_ns, worst = took > d->worst[WORST - 1].took_ns;
    w->histogram[histogram_bucket(took)]++;
    if (took > d->most_ns)
        d->most_ns = took;
    d->done++;
    if (!missed && !worst)
        return;
    uint64_t causes = runner_causes(&w->runner, &w->rt, 0, missed ? took - d->bound_ns : took);
    if (missed)
        count_miss(d, causes);
    if (worst)
        keep_worst(d, took, causes);
}

static void *drive_send(void *argument)
{
    struct driver *w = argument;
    struct sc_rt_drive *d = w->d;
    struct sc_receipt receipt;
    platform_apply(&d->platform);
    runner_open(&w->runner);
    for (uint64_t next = sys_now(); d->done < d->operations; next += d->gap_ns) {
        while (d->gap_ns && sys_now() < next)
            cpu_relax();
        uint64_t start = begin(w);
        if (start >= d->deadline)
            break;
        int rc = sc_send(w->sender, UINT64_C(1) << d->box, w->data, d->bytes, start, &receipt);
        if (rc == SC_UNDECIDED)                      /* late, and over when it is decided */
            rc = sc_confirm(w->sender, (int)d->box, &receipt, d->deadline);
        uint64_t took = sys_now() - start;
        if (rc == SC_FULL) {                         /* the receiver's turn: not a send */
            d->full++;
            sys_sleep_until(sys_now() + 20000);
        } else if (rc == 0 || rc == SC_REJECTED) {
            d->rejected += rc != 0;
            count(w, took);
        } else {
            d->error = (uint64_t)-rc;
            break;
        }
    }
    runner_close(&w->runner);
    platform_release(&d->platform);
    return NULL;
}

static void *drive_receive(void *argument)
{
    struct driver *w = argument;
    struct sc_rt_drive *d = w->d;
    const struct sc_domain_params *p = &w->receiver->domain->params;
    uint64_t may = p->protocol == SC_CRASH    ? p->bounds.send_ns + p->bounds.epsilon_ns
                   : p->protocol == SC_TIMING ? p->bounds.expiry_ns + p->bounds.epsilon_ns
                                              : 0;
    struct sc_message message;
    platform_apply(&d->platform);
    runner_open(&w->runner);
    while (d->done < d->operations) {
        uint64_t start = begin(w);
        uint64_t until = start + IDLE_NS < d->deadline ? start + IDLE_NS : d->deadline;
        int rc = sc_receive(w->receiver, w->data, d->bytes, until, &message);
        uint64_t end = sys_now();
        if (rc) {
            d->error = rc == SC_TIMEOUT ? 0 : (uint64_t)-rc;
            break;
        }
        uint64_t allowed = message.timestamp + may;
        uint64_t since = allowed > start ? allowed : start;
        count(w, end > since ? end - since : 0);
    }
    runner_close(&w->runner);
    platform_release(&d->platform);
    return NULL;
}

static int drive(struct driver *w, void *(*work)(void *))
{
    pthread_t thread;
    struct sc_rt_drive *d = w->d;
    d->deadline = absolute(d->deadline);
    d->done = d->misses = d->rejected = d->full = d->most_ns = d->error = 0;
    memset(d->causes, 0, sizeof d->causes);
    memset(d->worst, 0, sizeof d->worst);
    w->data = calloc(1, d->bytes + 1);
    int rc = w->data ? -pthread_create(&thread, NULL, work, w) : -ENOMEM;
    if (rc == 0)
        pthread_join(thread, NULL);
    free(w->data);
    free(w);
    return rc;
}

static struct driver *driver_for(struct sc_rt_drive *d, uint64_t *histogram)
{
    struct driver *w = calloc(1, sizeof *w);
    if (w) {
        w->d = d;
        w->histogram = histogram;
    }
    return w;
}

int sc_rt_drive_send(sc_sender *sender, struct sc_rt_drive *d, uint64_t *histogram)
{
    struct driver *w = driver_for(d, histogram);
    if (!w)
        return -ENOMEM;
    w->sender = sender;
    return drive(w, drive_send);
}

int sc_rt_drive_receive(sc_receiver *receiver, struct sc_rt_drive *d, uint64_t *histogram)
{
    struct driver *w = driver_for(d, histogram);
    if (!w)
        return -ENOMEM;
    w->receiver = receiver;
    return drive(w, drive_receive);
}
