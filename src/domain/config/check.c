/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the table of fields cannot express. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/own.h"
#include "domain/config/sources.h"
#include "lib/net/host.h"
#include "domain/policy/egress_ceiling.h"
#include "domain/policy/egress_names.h"
#include "domain/profile/words.h"

struct config_checker {
    struct config *c;
    const struct sources *sources;
    struct err *e;
};

#define fail_config(k, field, ...) sources_fail((k)->sources, (field), (k)->e, __VA_ARGS__)

static bool is_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return s.n > 0;
}

static bool is_socket(struct str s)
{
    return s.n <= CONFIG_SOCKET_MAX && s.n > 1 && word_path(s);
}

static bool is_mode(struct str s)
{
    if (s.n < 3 || s.n > 4 || (s.n == 4 && s.p[0] != '0'))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '7')
            return false;
    return true;
}

static bool is_account(struct str s)
{
    uint64_t id;

    if (s.n && s.p[0] >= '0' && s.p[0] <= '9')
        return str_to_u64(s, &id) && id < UINT32_MAX;
    return word_user(s);
}

/* Accepts no user or password, because the URL is shown and logged. */
static bool is_plain_url(struct str s)
{
    struct str rest, authority;

    if (str_starts(s, STR("https://")))
        rest = (struct str){ s.p + 8, s.n - 8 };
    else if (str_starts(s, STR("http://")))
        rest = (struct str){ s.p + 7, s.n - 7 };
    else
        return false;
    str_cut(rest, '/', &authority);
    return authority.n && is_printable(s) && str_find(authority, '@') == authority.n;
}

static bool is_number(struct str s)
{
    uint64_t n;

    return str_to_u64(s, &n) && n < UINT32_MAX;
}

/* Rejects "/", which would not restrict anything. */
static bool is_below_root(struct str s)
{
    return s.n > 1 && word_path(s);
}

/* Rules for texts and lists of texts. */
static bool is_local_place(struct str s)
{
    struct egress_place p;

    return !egress_place_parse(s, 0, &p) && p.is_prefix;
}

static bool is_listed_place(struct str s)
{
    struct egress_place p;

    return !egress_place_parse(s, 443, &p);
}

static bool is_known_name(struct str s)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_NAMES_MEMORY);
    const struct egress_endpoint *ep;
    const char *item = arena_dup(&a, s);

    return item && egress_known_read(item, &a, &ep, NULL) >= 0;
}

#define TEXT(...) WORD_TEXT(struct config, __VA_ARGS__)
#define LIST(...) WORD_LIST(struct config, __VA_ARGS__)
static const struct word_rule text_rules[] = {
    TEXT("socket.path", socket.path, is_socket, "an absolute path of at most 107 bytes"),
    TEXT("socket.mode", socket.mode, is_mode, "octal digits in quotes, as in \"0660\""),
    TEXT("socket.group", socket.group, is_account, "a group's name or number"),
    TEXT("state", state, is_below_root, "an absolute path without '.', '..' and '//'"),
    TEXT("user", user, is_account, "a user's name or number"),
    TEXT("host", host, word_place, "the name of a host"),
    TEXT("hub.url", hub.url, is_plain_url, "an http:// or https:// URL without user and password"),
    LIST("egress.local", egress.local, is_local_place,
         "ADDRESS:PORT, ADDRESS/BITS:PORT or [ADDRESS6/BITS]:PORT, where a list of ports or '*' "
         "may stand for the port; metadata services and ports of cluster control planes are never "
         "allowed"),
    LIST("egress.names", egress.names, is_known_name,
         "NAME[:PORT[,PORT…]]=ADDRESS[,ADDRESS…] with a name and addresses or prefixes of which "
         "none is public, as in \"mirror.corp:443=10.0.0.5\"; metadata services and ports of "
         "cluster control planes are never allowed"),
    LIST("egress.listed", egress.listed, is_listed_place,
         "a host in lower case, an address or a prefix, with or without :PORT"),
    LIST("trust.masters", trust.masters, is_number, "the number of a user"),
    LIST("profiles.dirs", profiles.dirs, is_below_root, "an absolute path"),
    LIST("workspaces.roots", workspaces.roots, is_below_root, "an absolute path below /"),
};
#undef TEXT
#undef LIST

static int check_config_texts(const struct config_checker *k)
{
    char path[WORD_RULE_PATH];
    const char *wanted = word_rules_broken(text_rules, COUNT_OF(text_rules), k->c, path);

    return wanted ? fail_config(k, path, "must be %s", wanted) : 0;
}

static int check_config_files(const struct config_checker *k)
{
    for (size_t i = 0; i < CONFIG_FILES; i++) {
        const char *path = config_file(k->c, &config_files[i]);

        if (path && !is_below_root(str_from(path)))
            return fail_config(k, config_files[i].field, "must be an absolute path");
    }
    return 0;
}

static int check_socket_mode(const struct config_checker *k)
{
    unsigned mode = 0;

    for (const char *digit = k->c->socket.mode; *digit; digit++)
        mode = mode * 8 + (unsigned)(*digit - '0');
    k->c->socket_mode = mode;
    return 0;
}

int config_address_read(struct str text, struct config_address *ret, struct err *e)
{
    size_t colon = text.n;
    struct str ip, port;
    unsigned char bytes[16];
    uint64_t number;
    bool six;

    while (colon && text.p[colon - 1] != ':')
        colon--;
    ip = (struct str){ text.p, colon ? colon - 1 : 0 };
    port = (struct str){ text.p + colon, text.n - colon };
    six = ip.n > 2 && ip.p[0] == '[' && ip.p[ip.n - 1] == ']';
    if (six)
        ip = (struct str){ ip.p + 1, ip.n - 2 };
    if (!str_copy(ip, ret->ip, sizeof ret->ip) ||
        inet_pton(six ? AF_INET6 : AF_INET, ret->ip, bytes) != 1 || !str_to_u64(port, &number) ||
        number < 1 || number > UINT16_MAX)
        return err_set(e, ERR_INVALID, "must be an address and a port, such as %s or [::1]:7700",
                       CONFIG_LISTEN_DEFAULT);
    ret->port = (uint16_t)number;
    return 0;
}

int config_listen_check(const struct config *c, const struct config_address *at, struct err *e)
{
    if (c->listen_unencrypted || strncmp(at->ip, "127.", 4) == 0 || strcmp(at->ip, "::1") == 0)
        return 0;
    return err_set(e, ERR_DENIED,
                   "other machines can reach %s, and tokens would be sent unencrypted: serve TLS "
                   "(domain.listen), or set listen_unencrypted (--listen-unencrypted)",
                   at->ip);
}

static int check_listen_address(const struct config_checker *k)
{
    struct err why = { 0 };

    if (!k->c->listen)
        return 0;
    if (config_address_read(str_from(k->c->listen), &k->c->address, &why) < 0 ||
        config_listen_check(k->c, &k->c->address, &why) < 0)
        return fail_config(k, "listen", "%s", why.msg);
    return 0;
}

/* Host names in canonical spelling, which is the one that is compared. */
static bool is_domain(struct str name)
{
    struct str label;

    while (name.p) {
        name = str_cut(name, '.', &label);
        if (!label.n || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        for (size_t i = 0; i < label.n; i++)
            if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", label.p[i]) || !label.p[i])
                return false;
    }
    return true;
}

static int check_domain(const struct config_checker *k)
{
    struct err why = { 0 };

    if (k->c->domain.name && !is_domain(str_from(k->c->domain.name)))
        return fail_config(k, "domain.name",
                           "must be a DNS name in lower case, such as sandboxes.example");
    if (!k->c->domain.listen)
        return 0;
    if (!k->c->domain.name)
        return fail_config(k, "domain.listen", "needs domain.name");
    if (!k->c->domain.certificate != !k->c->domain.key)
        return fail_config(k, "domain.certificate", "must be set together with domain.key");
    if (config_address_read(str_from(k->c->domain.listen), &k->c->domain_address, &why) < 0)
        return fail_config(k, "domain.listen", "%s", why.msg);
    return 0;
}

static int check_pool_total(const struct config_checker *k)
{
    if (k->c->pool.total_max <= k->c->limits.sandboxes_max)
        return 0;
    return fail_config(k, "pool.total_max",
                       "must not be more than limits.sandboxes_max, which is %" PRIu32,
                       k->c->limits.sandboxes_max);
}

static bool host_known(const struct config *c, const char *name, size_t among)
{
    const struct config_host *hosts = c->hosts.p;

    for (size_t i = 0; i < among; i++)
        if (strcmp(hosts[i].name, name) == 0)
            return true;
    return strcmp(name, CONFIG_HOST_LOCAL) == 0;
}

static int check_hosts(const struct config_checker *k)
{
    const struct config_host *hosts = k->c->hosts.p;
    char field[64];

    for (size_t i = 0; i < k->c->hosts.n; i++) {
        snprintf(field, sizeof field, "hosts[%zu].name", i);
        if (!word_place(str_from(hosts[i].name)))
            return fail_config(k, field,
                               "must be labels of a-z, 0-9 and '-' with dots between them");
        if (host_known(k->c, hosts[i].name, i))
            return fail_config(k, field, "the host name '%s' is already in use", hosts[i].name);
        snprintf(field, sizeof field, "hosts[%zu].address", i);
        /* It is passed to ssh as an argument. */
        if (!is_printable(str_from(hosts[i].address)) || hosts[i].address[0] == '-')
            return fail_config(k, field, "must be a destination for ssh, such as user@build1");
    }
    if (k->c->host && !host_known(k->c, k->c->host, k->c->hosts.n))
        return fail_config(k, "host", "there is no host '%s' in hosts", k->c->host);
    return 0;
}

/* At most one hook may be configured for a step. */
static int check_step(const struct config_checker *k, const char *field,
                      const struct config_step *s)
{
    int many = (s->command.n > 0) + (s->mcp.command.n > 0) + !!s->mcp.url;

    if (many > 1)
        return fail_config(k, field, "set only one of command, mcp.command and mcp.url");
    if (s->mcp.tool && !s->mcp.url && !s->mcp.command.n)
        return fail_config(k, field, "mcp.tool needs mcp.command or mcp.url");
    if (s->mcp.url && !is_plain_url(str_from(s->mcp.url)))
        return fail_config(k, field,
                           "mcp.url: must be an http:// or https:// URL without user and password");
    return 0;
}

static int check_steps(const struct config_checker *k)
{
    int r = check_step(k, "scan.preflight", &k->c->scan.preflight);

    return r < 0 ? r : check_step(k, "scan.postflight", &k->c->scan.postflight);
}

static int check_image_registry(const struct config_checker *k, const struct config_registry *r,
                                size_t i)
{
    struct address a;
    struct host h;
    uint16_t port;
    char field[64];

    snprintf(field, sizeof field, "images.registries[%zu]", i);
    if (authority_parse(str_from(r->host), 443, &h, &port, NULL) < 0)
        return fail_config(k, field, "host: must be a name or an address, with a port or without");
    for (size_t n = 0; n < r->addresses.n; n++)
        if (!address_parse(str_from(r->addresses.p[n]), &a) || !address_grantable(&a))
            return fail_config(k, field,
                               "addresses: '%s' is not an address that a registry may have",
                               r->addresses.p[n]);
    if (r->creds_file && !is_below_root(str_from(r->creds_file)))
        return fail_config(k, field, "creds_file: must be an absolute path");
    if (r->ca_file && !is_below_root(str_from(r->ca_file)))
        return fail_config(k, field, "ca_file: must be an absolute path");
    return 0;
}

static int check_images_section(const struct config_checker *k)
{
    const struct config_registry *all = k->c->images.registries.p;
    struct host h;
    uint16_t port;
    int r = 0;

    if (k->c->images.registry &&
        authority_parse(str_from(k->c->images.registry), 443, &h, &port, NULL) < 0)
        return fail_config(k, "images.registry",
                           "must be a name or an address, with a port or without");
    for (size_t i = 0; i < k->c->images.registries.n && r >= 0; i++)
        r = check_image_registry(k, &all[i], i);
    return r;
}

int config_self_approval_check(const struct config *c, struct err *e)
{
    const char *door = c->listen              ? "listen (--listen)"
                       : c->domain.listen     ? "domain.listen"
                       : c->socket_mode & 077 ? "socket.mode"
                                              : "an inherited socket (LISTEN_FDS)";

    if (!c->trust.self_approval || !config_serves_tenants(c))
        return 0;
    return err_set(
        e, ERR_INVALID,
        "is for a daemon that only its own user can reach, and %s lets others in: remove "
        "one of them; approvers of other callers need a master token",
        door);
}

static int check_self_approval(const struct config_checker *k)
{
    struct err why;

    if (config_self_approval_check(k->c, &why) < 0)
        return fail_config(k, "trust.self_approval", "%s", why.msg);
    return 0;
}

int config_check_(struct config *c, const struct sources *s, struct err *e)
{
    static int (*const checks[])(const struct config_checker *) = {
        check_config_texts,   check_config_files, check_socket_mode, check_listen_address,
        check_domain,         check_pool_total,   check_hosts,       check_steps,
        check_images_section, check_self_approval
    };
    struct config_checker k = { .c = c, .sources = s, .e = e };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](&k);
    return r;
}
