#include "cli/network_options.h"

#include <stdio.h>

#include "packages/packages.h"

bool network_wanted(const struct network_options *o)
{
    return o->allow.n || o->policy || o->packages;
}

bool network_touched(const struct network_options *o)
{
    return network_wanted(o) || o->log || o->resolvers.n || o->upstream;
}

static void list_unknown(const struct packages *found, char *text, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < found->n_unknown && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", found->unknown[i]);
}

static int add_packages(struct network_options *o, int root, bool whole, const char *const *env,
                        struct err *e)
{
    static struct packages found; /* the list borrows from it */

    packages_find(root, whole, env, &found);
    list_unknown(&found, o->unknown, sizeof o->unknown);
    if (!found.n)
        return err_set(e, ERR_NOT_FOUND,
                       "--allow-packages: no host is known of any package manager inside%s%s%s; "
                       "name one with --allow HOST",
                       found.n_unknown ? " (" : "", o->unknown, found.n_unknown ? ")" : "");
    if (o->allow.n + found.n > OPTION_LIST_MAX)
        return err_set(e, ERR_TOO_BIG, "--allow: more than %d hosts", OPTION_LIST_MAX);
    for (size_t i = 0; i < found.n; i++)
        o->allow.p[o->allow.n++] = found.hosts[i];
    return 0;
}

int network_options_complete(struct network_options *o, int root, bool whole,
                             const char *const *env, struct err *e)
{
    int r = 0;

    if (!network_wanted(o) && network_touched(o))
        return err_set(e, ERR_INVALID,
                       "--egress-log, --resolver and --upstream go with --allow, "
                       "--allow-packages or --policy");
    if (o->resolvers.n > NETWORK_RESOLVERS_MAX)
        return err_set(e, ERR_INVALID, "--resolver: more than %d", NETWORK_RESOLVERS_MAX);
    if (o->packages)
        r = add_packages(o, root, whole, env, e);
    return r < 0 ? r : network_wanted(o);
}
