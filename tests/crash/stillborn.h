/* stillborn.h: what a creator leaves that dies between naming its segments and calling them born. */
#ifndef STILLBORN_H
#define STILLBORN_H

#include <stdbool.h>

struct sc_domain_params;

bool leave_stillborn(const char *name, const struct sc_domain_params *params);

#endif
