/* litmus.c: classical small programs, to see that the checker's memory is what it says.
 *
 *   store buffering   x := 1; r := y  ||  y := 1; r := x      both 0: TSO yes, with fences no, SC no
 *   message passing   x := 1; y := 1  ||  r := y; s := x      r = 1, s = 0: relaxed stores only
 */
#include "cast.h"

static struct event *only(struct app *app)
{
    app->event_count = 1;
    return &app->event[0];
}

static void store_buffering(struct app *app, bool fence)
{
    step_store(at_of(LITMUS_PLACE(app->index)), 8, 1, STEP_RELAXED);
    if (fence)
        step_fence();
    only(app)->payload = step_load(at_of(LITMUS_PLACE(1 - app->index)), 8);
}

void litmus_play(struct app *app)
{
    switch (app->actor->role) {
    case SB_STORES: store_buffering(app, false); break;
    case SB_FENCES: store_buffering(app, true); break;
    case MP_WRITER:
        step_store(at_of(LITMUS_PLACE(0)), 8, 1, STEP_RELAXED);
        step_store(at_of(LITMUS_PLACE(1)), 8, 1,
                   app->actor->messages ? STEP_ORDERED : STEP_RELAXED);
        break;
    case MP_READER:
        only(app)->timestamp = step_load(at_of(LITMUS_PLACE(1)), 8);
        only(app)->payload = step_load(at_of(LITMUS_PLACE(0)), 8);
        break;
    default: break;
    }
}
