/* api.h: the C API. cffi parses this file as it is, so it has no preprocessor lines; include
 * api_types.h before it.
 *
 * Functions return 0 or a count, or a negative value of enum sc_error or of -errno. Times are in
 * nanoseconds of CLOCK_MONOTONIC. A deadline is absolute; with its highest bit set, the rest is a
 * time from now on, which saves the caller a look at the clock; with SC_UNCOUNTED added, a lane that
 * is still full then is not counted as such, because the caller will try again. UINT64_MAX waits
 * without deadline (the caller must have another way out: closing the handle ends the wait).
 */

enum sc_limit {
    SC_COPIES_MAX = 8,
    SC_SENDERS_MAX = 64,
    SC_RECEIVERS_MAX = 64,
    SC_MAILBOXES_MAX = 48,
    SC_NAME_MAX = 100,        /* bytes of a name, without its end */
    SC_BATCH_MAX = 4096,      /* messages of one send operation */
    SC_HISTOGRAM_WORDS = 320
};

enum sc_protocol { SC_CRASH = 1, SC_TIMING = 2, SC_EAGER = 3 };

enum sc_error {
    SC_LOST = -1001,          /* no copy is left */
    SC_REJECTED = -1002,      /* decided against */
    SC_LATE = -1003,          /* deadline passed, or this member was evicted for being late */
    SC_FULL = -1004,          /* no room before the deadline; nothing written */
    SC_TOO_LARGE = -1005,
    SC_PEER_DEAD = -1006,
    SC_INCOMPATIBLE = -1007,
    SC_CORRUPT = -1008,
    SC_COPY_FAILED = -1009,
    SC_CLOSED = -1010,        /* the handle was closed */
    SC_FORKED = -1011,        /* the handle belongs to the parent process */
    SC_TIMEOUT = -1012,       /* nothing came before the deadline */
    SC_EXISTS = -1013,
    SC_MISSING = -1014,
    SC_INVALID = -1015,       /* a parameter out of range */
    SC_NO_SPACE = -1016,      /* /dev/shm is full */
    SC_NO_LANE = -1017,       /* every place for a sender, or receiver, is taken */
    SC_REMOVED = -1018,       /* the mailbox was removed */
    SC_FROZEN = -1019,        /* a copy is being replaced; it took longer than the deadline */
    SC_EXHAUSTED = -1020,     /* the domain has had as many segments as it can */
    SC_OVERRUN = -1021,       /* it was done, but later than its bound; only if asked for */
    SC_NOT_OWNER = -1022,     /* a new copy must belong to whom the others belong */
    SC_UNDECIDED = -1023      /* sent, and not decided yet; sc_confirm tells */
};

/* Derived bounds, all in ns; realtime/bounds.py computes them. */
struct sc_bounds {
    uint64_t send_ns;         /* Δs: a send is over, or may be rejected */
    uint64_t receive_ns;      /* Δr */
    uint64_t decide_ns;       /* δd: deciding in one copy */
    uint64_t epsilon_ns;      /* ε: largest difference between two clocks */
    uint64_t poll_ns;         /* p: longest sleep before looking again */
    uint64_t expiry_ns;       /* χ: `timing` processes a message after ts + χ + ε */
    uint64_t hold_ns;         /* a receiver that stops the senders longer than this is late */
    uint64_t calibration;     /* which measurement they came from; 0: none */
};

struct sc_domain_params {
    uint32_t copies;
    uint32_t senders;
    uint32_t mailboxes;       /* 1 for a mailbox by itself */
    uint32_t protocol;
    uint32_t mode;            /* permission bits of the segments */
    int64_t group_id;         /* -1: leave */
    struct sc_bounds bounds;
};

struct sc_mailbox_params {
    uint64_t message_bytes;
    uint32_t capacity;        /* slots per lane, a power of two */
    uint32_t receivers;
    uint32_t checksum;        /* 1: payloads are checked too, 0: control data only */
    uint32_t evict;           /* 1: a receiver that holds up senders beyond hold_ns is evicted */
};

struct sc_receipt {
    uint64_t timestamp;
    uint64_t sequence;        /* of the first message of the operation */
    uint64_t position;        /* in its lane; of several mailboxes, in that with the lowest number */
};

struct sc_message {
    uint64_t timestamp;
    uint64_t sequence;
    uint64_t sender;
    uint64_t bytes;
    uint64_t offset;          /* of the payload in the caller's buffer */
};

struct sc_part { const void *data; uint64_t bytes; };

struct sc_copy_info { uint64_t serial; int32_t intact; };

struct sc_sender_stats {
    uint64_t held, pid;
    uint64_t operations, messages, bytes, rejected, full, late, worst_ns;
};

struct sc_receiver_stats {
    uint64_t held, pid;
    uint64_t messages, bytes, rejected, resolved, violations, sleeps, worst_ns, depth;
    uint64_t late;            /* deliveries after their bound */
    uint64_t late_rounds;     /* `timing`: messages that it was too late to vote on */
    uint64_t late_peers;      /* `timing`: others that it found silent beyond their bound */
    uint64_t evicted;         /* of those, how many it evicted */
    uint64_t silent_ns;       /* `timing`: since its last round of decisions */
};

/* A bound that was broken. */
enum sc_overrun_kind {
    SC_SEND_LATE = 1,         /* accepted after its bound */
    SC_SEND_REJECTED = 2,     /* late, and therefore rejected */
    SC_DELIVERY_LATE = 3,
    SC_DECISION_LATE = 4,     /* `timing`: too late to vote on a message */
    SC_PEER_LATE = 5,         /* `timing`: another receiver is silent beyond its bound */
    SC_PEER_EVICTED = 6
};

struct sc_overrun { uint64_t time_ns, timestamp, took_ns, bound_ns, kind; };

typedef struct sc_domain sc_domain;
typedef struct sc_sender sc_sender;
typedef struct sc_receiver sc_receiver;

/* Domains. A mailbox by itself is a domain with one mailbox. */
int sc_domain_create(const char *name, const struct sc_domain_params *params, sc_domain **out);
int sc_domain_publish(sc_domain *domain);   /* until then it has no name and vanishes on close */
int sc_domain_open(const char *name, uint64_t deadline, sc_domain **out);
void sc_domain_close(sc_domain *domain);    /* unmaps; every handle has been freed before */
int sc_domain_remove(const char *name);
int sc_domain_params(sc_domain *domain, struct sc_domain_params *out);
int sc_domain_copies(sc_domain *domain, struct sc_copy_info *out, int max);
int sc_domain_replace(sc_domain *domain, uint64_t deadline);
int sc_domain_reap(sc_domain *domain);
uint64_t sc_domain_minor_faults(void);

/* Mailboxes of a domain, named by their index. */
int sc_mailbox_create(sc_domain *domain, const char *name, const struct sc_mailbox_params *params);
int sc_mailbox_find(sc_domain *domain, const char *name);
int sc_mailbox_name(sc_domain *domain, int box, char *out, size_t size);
int sc_mailbox_params(sc_domain *domain, int box, struct sc_mailbox_params *out);
int sc_mailbox_remove(sc_domain *domain, int box);
int sc_domain_sender_stats(sc_domain *domain, int lane, struct sc_sender_stats *out);
int sc_mailbox_receiver_stats(sc_domain *domain, int box, int slot, struct sc_receiver_stats *out);
/* Completion times, SC_HISTOGRAM_WORDS counts (rt_histogram.h): sends; timestamp to delivery. */
int sc_domain_sender_histogram(sc_domain *domain, int lane, uint64_t *out);
int sc_mailbox_receiver_histogram(sc_domain *domain, int box, int slot, uint64_t *out);

/* Senders. `boxes` is a set of mailbox indices, bit i for mailbox i. */
int sc_sender_open(sc_domain *domain, uint64_t deadline, sc_sender **out);
int sc_sender_close(sc_sender *sender);     /* gives the lane back; threads inside get SC_CLOSED */
void sc_sender_free(sc_sender *sender);     /* closes if need be; no thread may be inside */
uint64_t sc_sender_id(sc_sender *sender);
int sc_send(sc_sender *sender, uint64_t boxes, const void *data, uint64_t bytes, uint64_t deadline,
            struct sc_receipt *out);
int sc_send_many(sc_sender *sender, uint64_t boxes, const struct sc_part *parts, uint32_t count,
                 uint64_t deadline, struct sc_receipt *out);
int sc_send_packed(sc_sender *sender, uint64_t boxes, const void *data, const uint64_t *sizes,
                   uint32_t count, uint64_t deadline, struct sc_receipt *out);
int sc_loan(sc_sender *sender, int box, uint64_t bytes, uint64_t deadline, void **out);
int sc_loan_send(sc_sender *sender, uint64_t bytes, uint64_t deadline, struct sc_receipt *out);
int sc_loan_drop(sc_sender *sender);
int sc_sender_overruns(sc_sender *sender, struct sc_overrun *out, uint32_t max);
void sc_sender_raise_late(sc_sender *sender, int wanted);
int sc_sender_undecided(sc_sender *sender, struct sc_receipt *out); /* of the last SC_UNDECIDED */
int sc_confirm(sc_sender *sender, int box, const struct sc_receipt *receipt, uint64_t deadline);

/* Receivers. */
int sc_receiver_open(sc_domain *domain, int box, uint64_t deadline, sc_receiver **out);
int sc_receiver_close(sc_receiver *receiver);
void sc_receiver_free(sc_receiver *receiver);
int sc_receiver_leave(sc_receiver *receiver);
int sc_receiver_wait_style(sc_receiver *receiver, uint64_t spin_ns);
int sc_receive(sc_receiver *receiver, void *buffer, uint64_t size, uint64_t deadline,
               struct sc_message *out);
int sc_receive_many(sc_receiver *receiver, void *buffer, uint64_t size, uint64_t deadline,
                    struct sc_message *out, uint32_t max);
int sc_view(sc_receiver *receiver, uint64_t deadline, struct sc_message *out, const void **data);
int sc_view_release(sc_receiver *receiver);
uint64_t sc_receiver_depth(sc_receiver *receiver);
/* `eager`. Every message of the mailbox that is stamped earlier than *before, and not from before the
 * receiver joined, has been delivered to it already; what comes later is stamped at or after it. 0:
 * cannot be told now (a copy has just failed): receive, then ask again. Grows with the clock, but for
 * messages that lie ready and sends under way. */
int sc_receiver_settled(sc_receiver *receiver, uint64_t deadline, uint64_t *before);
int sc_receiver_overruns(sc_receiver *receiver, struct sc_overrun *out, uint32_t max);
void sc_receiver_raise_late(sc_receiver *receiver, int wanted);
int sc_receiver_decide_by_schedule(sc_receiver *receiver);  /* `timing`; see sc_rt_decide */

/* Clock, and faults for tests: they change this process only, or one copy. */
uint64_t sc_now(void);
uint64_t sc_clock(void);
void sc_clock_fault(int64_t offset_ns, int64_t drift_ppb);
int sc_fault_poison(sc_domain *domain, int copy);
uint32_t sc_crc32c(const void *data, uint64_t bytes);
