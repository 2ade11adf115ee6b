/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/network_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "domain/package_hosts/package_hosts.h"

bool network_is_requested(const struct network_options *o)
{
    return o->allow.n || o->policy || o->packages;
}

bool network_touched(const struct network_options *o)
{
    return network_is_requested(o) || o->log || o->resolvers.n || o->upstream;
}

static int add_package_hosts(struct network_options *o, int root, const char *home,
                             const char *const *env, struct err *e)
{
    static struct package_hosts found; /* the list borrows from it */
    size_t at = 0, size = sizeof o->unknown;

    package_hosts_find(home ? PACKAGE_HOSTS_OF_CALLER : PACKAGE_HOSTS_OF_OPERATOR, root, home, env,
                       &found);
    package_hosts_locate(&found);
    for (size_t i = 0; i < found.n_unknown && at < size; i++)
        at += (size_t)snprintf(o->unknown + at, size - at, "%s%s", i ? ", " : "", found.unknown[i]);
    if (!found.n)
        return err_set(e, ERR_NOT_FOUND,
                       "--allow-packages: no host is known of any package manager inside%s%s%s; "
                       "name one with --allow HOST",
                       found.n_unknown ? " (" : "", o->unknown, found.n_unknown ? ")" : "");
    if (o->allow.n + found.n > OPTION_LIST_MAX)
        return err_set(e, ERR_TOO_BIG, "--allow: more than %d hosts", OPTION_LIST_MAX);
    for (size_t i = 0; i < found.n; i++)
        o->allow.p[o->allow.n++] = found.hosts[i];
    o->packages = false;
    return 0;
}

/* Mistakes that need a hint about options; the policy's parser reports all others. */
static int check_allow_options(const struct network_options *o, struct err *e)
{
    for (size_t i = 0; i < o->allow.n; i++) {
        if (strstr(o->allow.p[i], "://"))
            return err_set(e, ERR_INVALID,
                           "--allow: '%.100s' is a URL; write HOST or HOST:PORT (without a port it "
                           "is 443), as in api.example.com:80",
                           o->allow.p[i]);
        if (strcmp(o->allow.p[i], "*") == 0)
            return err_set(e, ERR_INVALID,
                           "--allow: '*' names no host; to let it reach every public address, use "
                           "--policy FILE with 'unlisted: {access: public}' in it");
    }
    return 0;
}

int network_options_read(struct network_options *o, struct err *e)
{
    int r = check_allow_options(o, e);

    if (r < 0)
        return r;
    return o->policy && !o->text.n ? text_file_read(o->policy, &o->text, e) : 0;
}

int network_options_complete(struct network_options *o, int root, const char *home,
                             const char *const *env, struct err *e)
{
    int r = 0;

    if (o->complete)
        return network_is_requested(o);
    if (!network_is_requested(o) && network_touched(o))
        return err_set(e, ERR_INVALID,
                       "--egress-log, --resolver and --upstream go with --allow, "
                       "--allow-packages or --policy");
    if (o->resolvers.n > NETWORK_RESOLVERS_MAX)
        return err_set(e, ERR_INVALID, "--resolver: more than %d", NETWORK_RESOLVERS_MAX);
    if (o->packages)
        r = add_package_hosts(o, root, home, env, e);
    if (r >= 0)
        r = network_options_read(o, e);
    o->complete = r >= 0;
    return r < 0 ? r : network_is_requested(o);
}

/* "127.0.0.1:8080,8081": the ports. The worker reports invalid ones. */
static void reserve_listener_ports(struct listeners_taken *t, bool v6, struct str ports)
{
    struct str one;
    uint64_t port = 443;

    if (!ports.p)
        listeners_take_port(t, v6, (uint16_t)port);
    while (ports.p) {
        ports = str_cut(ports, ',', &one);
        if (str_to_u64(one, &port) && port > 0 && port <= UINT16_MAX)
            listeners_take_port(t, v6, (uint16_t)port);
    }
}

struct listeners_taken network_taken(const struct network_options *o)
{
    static const struct {
        struct str host;
        bool v6;
    } hosts[] = { { STR("127.0.0.1"), false },
                  { STR("localhost"), false },
                  { STR("[::1]"), true } };
    struct listeners_taken taken = { 0 };

    for (size_t i = 0; i < o->allow.n; i++) {
        struct str item = str_from(o->allow.p[i]);

        for (size_t k = 0; k < COUNT_OF(hosts); k++) {
            size_t n = hosts[k].host.n;
            struct str ports = { 0 };

            if (item.n < n || strncasecmp(item.p, hosts[k].host.p, n) != 0 ||
                (item.n > n && item.p[n] != ':'))
                continue;
            if (item.n > n)
                ports = (struct str){ item.p + n + 1, item.n - n - 1 };
            reserve_listener_ports(&taken, hosts[k].v6, ports);
        }
    }
    return taken;
}

int network_log_open(const struct network_options *o, int *ret, struct err *e)
{
    int flags;

    *ret = -1;
    if (o->record) {
        *ret = fcntl(*o->record, F_DUPFD_CLOEXEC, 3);
        return *ret < 0 ? err_sys(e, "preparing the record of the network") : 0;
    }
    if (!o->log)
        return 0;
    *ret = open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (*ret < 0 && errno == ENXIO)
        return err_set(e, ERR_INVALID, "--egress-log %s: the pipe has no reader; start it first",
                       o->log);
    if (*ret < 0)
        return err_sys(e, "--egress-log %s", o->log);
    flags = fcntl(*ret, F_GETFL); /* O_NONBLOCK was for the open alone */
    if (flags < 0 || fcntl(*ret, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return err_sys(e, "--egress-log %s", o->log);
    return 0;
}

struct egress_request network_options_request(const struct network_options *o, struct json *policy)
{
    *policy = (struct json){ .type = JSON_STR, .s = buf_str(&o->text) };
    return (struct egress_request){ .allow = { o->allow.p, o->allow.n },
                                    .packages = o->packages,
                                    .policy = o->policy ? policy : NULL,
                                    .given = network_is_requested(o) };
}

void network_options_write(const struct network_options *o, struct json_writer *w)
{
    struct json policy;
    struct egress_request q = network_options_request(o, &policy);

    if (!q.given)
        return;
    json_key(w, STR("egress"));
    json_unbind_changed(&q, &(struct egress_request){ 0 }, egress_request_fields,
                        EGRESS_REQUEST_FIELD_COUNT, w);
}
