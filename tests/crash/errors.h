/* errors.h: results by name, and which of them may come of somebody's lateness. */
#ifndef CRASH_ERRORS_H
#define CRASH_ERRORS_H

/* A timed failure is excused where somebody was seen to be late (gauge.h); the others never are. */
enum kind { TIMED, ABSOLUTE };

const char *error_name(int rc);
const char *property_of(int rc);     /* that a call broke by returning this */
enum kind kind_of(int rc);           /* of a call that returned this and should not have */

#endif
