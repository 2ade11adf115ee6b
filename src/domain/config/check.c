/* What the table of fields cannot say. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/own.h"
#include "config/sources.h"
#include "net/host.h"
#include "policy/egress_ceiling.h"
#include "profile/words.h"

struct check {
    struct config *c;
    const struct sources *sources;
    struct err *e;
};

#define fail(k, field, ...) sources_fail((k)->sources, (field), (k)->e, __VA_ARGS__)

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

/* Without a user or password: it is shown and logged. */
static bool is_url(struct str s)
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

/* "/" would be no restriction at all. */
static bool is_below_root(struct str s)
{
    return s.n > 1 && word_path(s);
}

/* ssh gets it as an argument. */
static bool is_destination(struct str s)
{
    return is_printable(s) && s.p[0] != '-';
}

/* Texts, and lists of texts, that have to look like something. */
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

#define TEXT(...) WORD_TEXT(struct config, __VA_ARGS__)
#define LIST(...) WORD_LIST(struct config, __VA_ARGS__)
static const struct word_rule text_rules[] = {
    TEXT("socket.path", socket.path, is_socket, "an absolute path of at most 107 bytes"),
    TEXT("socket.mode", socket.mode, is_mode, "octal digits in quotes, as in \"0660\""),
    TEXT("socket.group", socket.group, is_account, "a group's name or number"),
    TEXT("state", state, is_below_root, "an absolute path without '.', '..' and '//'"),
    TEXT("user", user, is_account, "a user's name or number"),
    TEXT("host", host, word_place, "the name of a host"),
    TEXT("hub.url", hub.url, is_url, "an http:// or https:// URL without user and password"),
    TEXT("hub.headers_file", hub.headers_file, is_below_root, "an absolute path"),
    TEXT("secrets.key_file", secrets.key_file, is_below_root, "an absolute path"),
    TEXT("gateway.token_file", gateway.token_file, is_below_root, "an absolute path"),
    TEXT("trust.bundle", trust.bundle, is_below_root, "an absolute path"),
    LIST("egress.local", egress.local, is_local_place,
         "ADDRESS:PORT, ADDRESS/BITS:PORT or [ADDRESS6/BITS]:PORT, where a list of ports or '*' "
         "may stand for the port; metadata services and ports of cluster control planes are never "
         "allowed"),
    LIST("egress.listed", egress.listed, is_listed_place,
         "a host in lower case, an address or a prefix, with or without :PORT"),
    LIST("trust.masters", trust.masters, is_number, "the number of a user"),
    LIST("profiles.dirs", profiles.dirs, is_below_root, "an absolute path"),
    LIST("workspaces.roots", workspaces.roots, is_below_root, "an absolute path below /"),
};
#undef TEXT
#undef LIST

static int check_texts(const struct check *k)
{
    char path[WORD_RULE_PATH];
    const char *wanted = word_rules_broken(text_rules, COUNT_OF(text_rules), k->c, path);

    return wanted ? fail(k, path, "must be %s", wanted) : 0;
}

static int check_socket(const struct check *k)
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
        return err_set(e, ERR_INVALID, "must be an address and a port, as in %s or [::1]:7700",
                       CONFIG_LISTEN_DEFAULT);
    ret->port = (uint16_t)number;
    return 0;
}

int config_listen_check(const struct config *c, const struct config_address *at, struct err *e)
{
    if (c->listen_unencrypted || strncmp(at->ip, "127.", 4) == 0 || strcmp(at->ip, "::1") == 0)
        return 0;
    return err_set(e, ERR_DENIED,
                   "%s can be reached from other machines, and tokens would travel in clear: serve "
                   "TLS (domain.listen), or set listen_unencrypted (--listen-unencrypted)",
                   at->ip);
}

static int check_listen(const struct check *k)
{
    struct err why = { 0 };

    if (!k->c->listen)
        return 0;
    if (config_address_read(str_from(k->c->listen), &k->c->address, &why) < 0 ||
        config_listen_check(k->c, &k->c->address, &why) < 0)
        return fail(k, "listen", "%s", why.msg);
    return 0;
}

/* Names of hosts, in the one way of writing them that is compared with. */
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

static int check_domain(const struct check *k)
{
    struct err why = { 0 };

    if (k->c->domain.name && !is_domain(str_from(k->c->domain.name)))
        return fail(k, "domain.name",
                    "must be a name of DNS in lower case, as in sandboxes.example");
    if (!k->c->domain.listen)
        return 0;
    if (!k->c->domain.name)
        return fail(k, "domain.listen", "needs domain.name");
    if (!k->c->domain.certificate != !k->c->domain.key)
        return fail(k, "domain.certificate", "needs domain.key, and the other way round");
    if (config_address_read(str_from(k->c->domain.listen), &k->c->domain_address, &why) < 0)
        return fail(k, "domain.listen", "%s", why.msg);
    return 0;
}

static int check_pool(const struct check *k)
{
    if (k->c->pool.total_max <= k->c->limits.sandboxes_max)
        return 0;
    return fail(k, "pool.total_max",
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

static int check_hosts(const struct check *k)
{
    const struct config_host *hosts = k->c->hosts.p;
    char field[64];

    for (size_t i = 0; i < k->c->hosts.n; i++) {
        snprintf(field, sizeof field, "hosts[%zu].name", i);
        if (!word_place(str_from(hosts[i].name)))
            return fail(k, field, "must be labels of a-z, 0-9 and '-' with dots between them");
        if (host_known(k->c, hosts[i].name, i))
            return fail(k, field, "there is a host '%s' already", hosts[i].name);
        snprintf(field, sizeof field, "hosts[%zu].address", i);
        if (!is_destination(str_from(hosts[i].address)))
            return fail(k, field, "must be a destination as ssh takes it, as in user@build1");
    }
    if (k->c->host && !host_known(k->c, k->c->host, k->c->hosts.n))
        return fail(k, "host", "there is no host '%s' in hosts", k->c->host);
    return 0;
}

/* One of them takes a step, and nobody else. */
static int check_step(const struct check *k, const char *name, const struct config_step *s)
{
    char field[64];
    int many = (s->command.n > 0) + (s->mcp.command.n > 0) + !!s->mcp.url;

    snprintf(field, sizeof field, "scan.%s", name);
    if (many > 1)
        return fail(k, field, "a command, mcp.command or mcp.url takes the step: give one");
    if (s->mcp.tool && !s->mcp.url && !s->mcp.command.n)
        return fail(k, field, "mcp.tool is of a server: give mcp.command or mcp.url");
    if (s->mcp.url && !is_url(str_from(s->mcp.url)))
        return fail(k, field,
                    "mcp.url: must be an http:// or https:// URL without user and password");
    return 0;
}

static int check_steps(const struct check *k)
{
    int r = check_step(k, "preflight", &k->c->scan.preflight);

    return r < 0 ? r : check_step(k, "postflight", &k->c->scan.postflight);
}

static int check_registry(const struct check *k, const struct config_registry *r, size_t i)
{
    struct address a;
    struct host h;
    uint16_t port;
    char field[64];

    snprintf(field, sizeof field, "images.registries[%zu]", i);
    if (authority_parse(str_from(r->host), 443, &h, &port, NULL) < 0)
        return fail(k, field, "host: must be a name or an address, with a port or without");
    for (size_t n = 0; n < r->addresses.n; n++)
        if (!address_parse(str_from(r->addresses.p[n]), &a) || !address_grantable(&a))
            return fail(k, field, "addresses: '%s' is none that a registry can be at",
                        r->addresses.p[n]);
    if (r->creds_file && !is_below_root(str_from(r->creds_file)))
        return fail(k, field, "creds_file: must be an absolute path");
    if (r->ca_file && !is_below_root(str_from(r->ca_file)))
        return fail(k, field, "ca_file: must be an absolute path");
    return 0;
}

static int check_images(const struct check *k)
{
    const struct config_registry *all = k->c->images.registries.p;
    struct host h;
    uint16_t port;
    int r = 0;

    if (k->c->images.registry &&
        authority_parse(str_from(k->c->images.registry), 443, &h, &port, NULL) < 0)
        return fail(k, "images.registry", "must be a name or an address, with a port or without");
    for (size_t i = 0; i < k->c->images.registries.n && r >= 0; i++)
        r = check_registry(k, &all[i], i);
    return r;
}

int config_check_(struct config *c, const struct sources *s, struct err *e)
{
    static int (*const checks[])(const struct check *) = { check_texts,  check_socket, check_listen,
                                                           check_domain, check_pool,   check_hosts,
                                                           check_steps,  check_images };
    struct check k = { .c = c, .sources = s, .e = e };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](&k);
    return r;
}
