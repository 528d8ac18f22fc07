/* notes.h: the page that the processes of one case share with the worker that started it: who tried
 * to send what and what came of it, who received what, where everybody is. It outlives the killed.
 */
#ifndef CRASH_NOTES_H
#define CRASH_NOTES_H

#include "errors.h"
#include "gauge.h"
#include "points.h"

#define SENT_MAX 256
#define GOT_MAX 256
#define LINE 160

enum who { WHO_FIRST, WHO_ROLE, WHO_VICTIM, WHO_FILLER, WHO_NEW };   /* WHO_NEW + i: newcomers */
enum listener { EAR_0, EAR_1, EAR_B, EAR_ROLE, EAR_NEW, EARS };

enum { BOX_A = 0, BOX_B = 1, TO_A = 1, TO_B = 2 };

struct sent {
    uint32_t who, number, boxes;
    uint32_t batch;                  /* the same for all messages of one operation */
    int rc;                          /* SENT_OPEN while the call has not returned */
};
#define SENT_OPEN 1

struct got {
    uint64_t timestamp;
    uint32_t lane, who, number;
};

struct ear {
    uint32_t count;
    uint32_t stayed;                 /* it was a member from its first message to the end */
    struct got got[GOT_MAX];
};

struct body {                        /* of every message */
    uint32_t who, number;
    uint64_t mix;                    /* follows from the two: a torn payload shows */
};

struct notes {
    struct trace trace, victim_trace;
    struct gauge gauge;
    _Atomic uint64_t worst_ns;       /* the longest operation of a survivor */
    char worst_what[LINE];
    _Atomic uint64_t worst_bereft_ns;    /* the same, once the role is dead */
    char doing[2][LINE];             /* the survivors; the role */
    _Atomic uint32_t sent_count;
    struct sent sent[SENT_MAX];
    struct ear ear[EARS];
    uint32_t failures;
    bool absolute;                   /* one of them is: nobody's lateness excuses it */
    char failure[LINE * 4];          /* the first one, or the first absolute one */
    enum lateness excuse;            /* the worst, if the case is repeated */
    uint64_t violations;             /* counted by the survivors' receivers */
    char figures[LINE * 4];          /* what the core says of lateness */
    _Atomic bool goodbye;            /* the first sender's next message is the last for the role */
    _Atomic uint32_t goodbye_number;
    bool finished;
};

void note_failure(struct notes *n, enum kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void note_figure(struct notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct sent *note_try(struct notes *n, uint32_t who, uint32_t boxes, uint32_t batch);
void note_got(struct notes *n, enum listener ear, uint64_t timestamp, uint64_t sender,
              const void *payload, uint64_t bytes);
struct body body_of(uint32_t who, uint32_t number);
void notes_print(const struct notes *n);

#endif
