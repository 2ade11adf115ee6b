/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/config/config.h"
#include "lib/dns/resolver.h"
#include "lib/net/host.h"
#include "lib/proc/spawn.h"

enum { ARGUMENTS_MAX = 8 + 2 * CONFIG_RESOLVERS_MAX };
_Static_assert((int)DNS_SERVERS_MAX <= (int)CONFIG_RESOLVERS_MAX,
               "the system's resolvers are arguments, too");

struct arguments {
    char *v[ARGUMENTS_MAX]; /* for execve(), which writes to none of it */
    size_t n;
    char servers[DNS_SERVERS_MAX][ADDRESS_TEXT_MAX];
};

static void add_egress_argument(struct arguments *a, const char *s)
{
    memcpy(&a->v[a->n++], &s, sizeof s);
}

/* ADDRESS, or ADDRESS:PORT with brackets around IPv6. */
static int except_place(const struct gate *g, const char *what, struct str text, uint16_t port,
                        struct err *e)
{
    struct host host = { .is_address = false };
    int r = 0;

    host.is_address = address_parse(text, &host.address); /* IPv6 without brackets, too */
    if (!host.is_address)
        r = authority_parse(text, port, &host, &port, e);
    if (r >= 0 && !host.is_address)
        r = err_set(e, ERR_INVALID, "must be an address, not a name");
    if (r >= 0)
        r = gate_except(g, &host.address, port, e);
    return err_wrap(e, r, "%s '" STR_FMT "'", what, STR_ARG(text));
}

/* Passes the servers as arguments: /etc/resolv.conf may change before the worker reads it. */
static int except_system_resolvers(const struct gate *g, struct arguments *a, struct err *e)
{
    struct dns_server found[DNS_SERVERS_MAX];
    size_t n = resolv_conf_read(found);
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        address_text(&found[i].address, a->servers[i]);
        add_egress_argument(a, "--resolver");
        add_egress_argument(a, a->servers[i]);
        r = gate_except(g, &found[i].address, found[i].port, e);
    }
    return r;
}

static int except_configured(const struct worker_options *o, const struct gate *g,
                             struct arguments *a, struct err *e)
{
    const char *at = o->upstream ? strstr(o->upstream, "://") : NULL;
    int r = 0;

    if (!g->open)
        return 0;
    for (size_t i = 0; i < o->resolvers.n && i < CONFIG_RESOLVERS_MAX && r >= 0; i++)
        r = except_place(g, "egress.resolvers", str_from(o->resolvers.p[i]), DNS_PORT, e);
    if (r >= 0 && !o->resolvers.n)
        r = except_system_resolvers(g, a, e);
    if (r >= 0 && o->upstream)
        r = except_place(g, "egress.upstream", str_from(at ? at + 3 : o->upstream), 0, e);
    return r;
}

static void fill_egress_arguments(struct arguments *a, const struct worker_options *o)
{
    add_egress_argument(a, "sandboxer-egress");
    add_egress_argument(a, "--worker");
    add_egress_argument(a, "3");
    for (size_t i = 0; i < o->resolvers.n && i < CONFIG_RESOLVERS_MAX; i++) {
        add_egress_argument(a, "--resolver");
        add_egress_argument(a, o->resolvers.p[i]);
    }
    if (o->upstream) {
        add_egress_argument(a, "--upstream");
        add_egress_argument(a, o->upstream);
    }
}

/* Becomes the program at the path as another user, if the monitor can. */
static int exec_as(const struct identity_choice *who, const char *path, char *const *argv, int sock,
                   int *status, struct err *e)
{
    char *none[] = { NULL };
    const int fds[] = { -1, -1, STDERR_FILENO, sock };
    const struct spawn s = { .path = path,
                             .argv = argv,
                             .envp = none,
                             .fds = fds,
                             .n_fds = COUNT_OF(fds),
                             .become = geteuid() == 0,
                             .uid = who->uid,
                             .gid = who->gid };

    return spawn_exec(&s, status, e);
}

int worker_exec(const struct worker_options *o, const struct gate *g, int sock, int *status,
                struct err *e)
{
    struct arguments arguments = { .n = 0 };
    char path[PATH_MAX];
    int r = spawn_find("sandboxer-egress", path, sizeof path, e);

    fill_egress_arguments(&arguments, o);
    if (r >= 0)
        r = except_configured(o, g, &arguments, e);
    if (r >= 0)
        r = gate_enter(g, e);
    return r < 0 ? r : exec_as(&o->who, path, arguments.v, sock, status, e);
}

int fetch_process_exec(const struct identity_choice *who, int sock, int *status, struct err *e)
{
    char path[PATH_MAX], name[] = "sandboxer-fetch", *argv[] = { name, NULL };
    int r = spawn_find(name, path, sizeof path, e);

    return r < 0 ? r : exec_as(who, path, argv, sock, status, e);
}

/* Tests choose the points at which a layer worker dies or hangs. */
static char *const *list_test_points(void)
{
    static const char *const names[] = { "SANDBOXER_DIE_AT", "SANDBOXER_STOP_AT" };
    static char texts[COUNT_OF(names)][256];
    static char *list[COUNT_OF(names) + 1];
    size_t n = 0;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *at = SANDBOXER_TEST_HOOKS ? getenv(names[i]) : NULL;

        if (at && snprintf(texts[i], sizeof texts[i], "%s=%s", names[i], at) < (int)sizeof texts[i])
            list[n++] = texts[i];
    }
    list[n] = NULL;
    return list;
}

int layer_worker_exec(int storage, int sock, bool untrusted, int *status, struct err *e)
{
    char path[PATH_MAX], name[] = "sandboxer-layers";
    char option[] = "--peer", word[] = "untrusted";
    char *argv[] = { name, untrusted ? option : NULL, word, NULL };
    const int fds[] = { -1, -1, STDERR_FILENO, sock, storage };
    const struct spawn s = {
        .path = path, .argv = argv, .envp = list_test_points(), .fds = fds, .n_fds = COUNT_OF(fds)
    };
    int r = spawn_find(name, path, sizeof path, e);

    return r < 0 ? r : spawn_exec(&s, status, e);
}
