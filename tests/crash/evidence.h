/* evidence.h: what speaks for somebody's lateness at the end of a case, however it ends.
 *
 * Two witnesses. The gauge measures threads from outside the core. The core's own figures count only
 * where they carry a measure: an overrun that took longer than its bound, a round or a peer that was too
 * late. That somebody was refused, or that receivers disagreed (`violations`), proves nobody's lateness:
 * a wrong core would say so too. These are told, not believed.
 */
#ifndef CRASH_EVIDENCE_H
#define CRASH_EVIDENCE_H

#include "world.h"

void evidence_of_sender(sc_sender *sender);
void evidence_of_receiver(sc_receiver *receiver);
void evidence_of_world(struct world *w);     /* all handles of the survivors, and the figures */

#endif
