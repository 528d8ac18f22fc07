/* scripts_serve.c: creator, server, copy replacer. */
#include "actor.h"

void create_all(struct actor *a)
{
    int rc = make_domain(a->name, a->job);
    must(a, "create", rc);
}

void reap_once(struct actor *a) { must(a, "reap", sc_domain_reap(a->domain)); }

void remove_box(struct actor *a) { must(a, "remove a mailbox", sc_mailbox_remove(a->domain, BOX_B)); }

void remove_domain(struct actor *a) { must(a, "remove the domain", sc_domain_remove(a->name)); }

void replace_copy(struct actor *a)
{
    int rc = sc_domain_replace(a->domain, PATIENCE);
    must(a, "replace", rc);
    if (rc != 1)
        actor_fail(a, rc, "replace: %s instead of 1", error_name(rc));
}
