/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/own.h"
#include "base/units.h"

static const char help[] =
    "usage: sandboxer-egress --standalone [--listen ADDRESS:PORT] [--policy FILE] [--audit FILE]\n"
    "                        [--resolver ADDRESS[:PORT]]... [--upstream URL]\n"
    "\n"
    "An HTTP proxy that only allows the destinations of a policy. Any program can use it:\n"
    "\n"
    "  sandboxer-egress --standalone --policy policy.yaml &\n"
    "  HTTPS_PROXY=http://127.0.0.1:3128 curl https://api.example.com/\n"
    "\n"
    "  --standalone           run as a proxy, without a daemon\n"
    "  --listen ADDR:PORT     address to listen on (default 127.0.0.1:3128)\n"
    "  --listen-anywhere      allow an ADDR that other machines can reach: every client has all\n"
    "                         the rights of the policy\n"
    "  --policy FILE          the policy (sandboxer egress check FILE explains it); without one\n"
    "                         nothing is allowed. SIGHUP reads it again; connections that the\n"
    "                         new policy does not allow are closed at once\n"
    "  --on-bad-policy WHAT   if it cannot be read again: fail_closed (default: nothing is\n"
    "                         allowed until it can) or retain (keep the old policy)\n"
    "  --audit FILE           append one JSON line for each decision; - is stdout. SIGHUP opens\n"
    "                         the file again, after rotation\n"
    "  --resolver ADDR[:PORT] use this DNS server, at most 3 (default: /etc/resolv.conf)\n"
    "  --upstream URL         connect through http://ADDR:PORT or socks5://ADDR:PORT\n"
    "  --worker FD            serve a control plane on this socket (for sandboxerd)\n"
    "  --check FILE           print as JSON whether a policy is valid (sandboxer egress check)\n"
    "  --explain FILE         print a decision of a policy as JSON (sandboxer egress explain)\n"
    "    --to HOST[:PORT]     for a connection to this destination\n"
    "    --method M --path P  with this request\n"
    "    --upgrade PROTOCOL   that requests another protocol\n"
    "    --binary PATH        by this program\n"
    "  --verify-log           verify the chain of the log on stdin (sandboxer audit verify "
    "--file)\n"
    "  --learn                propose a policy from a question and a log on stdin (sandboxer\n"
    "                         egress learn)\n"
    "  --version, --help\n"
    "\n"
    "Rules that name programs allow nothing here, because clients cannot be identified.\n"
    "Signals: SIGHUP reopens log and policy; SIGTERM and SIGINT end the proxy.\n"
    "Exit status: 0, 1 for a failure, 2 for a wrong command line.\n";

/* Parses ADDRESS:PORT. Names are rejected. */
static int parse_address_option(const char *option, struct str text, uint16_t default_port,
                                struct address *ret, uint16_t *ret_port, struct err *e)
{
    struct host host;
    uint16_t port;
    int r = authority_parse(text, default_port, &host, &port, e);

    if (r >= 0 && !host.is_address)
        r = err_set(e, ERR_INVALID, "must be an IP address, not a name");
    if (r < 0)
        return err_wrap(e, r, "%s '" STR_FMT "'", option, STR_ARG(text));
    *ret = host.address;
    *ret_port = port;
    return 0;
}

static int read_resolver(struct egress_options *o, const char *text, struct err *e)
{
    struct dns_server *s = &o->servers[o->n_servers];

    if (o->n_servers == DNS_SERVERS_MAX)
        return err_set(e, ERR_INVALID, "--resolver: at most %d can be given", DNS_SERVERS_MAX);
    o->n_servers++;
    if (address_parse(str_from(text), &s->address)) { /* accepts IPv6 without brackets */
        s->port = DNS_PORT;
        return 0;
    }
    return parse_address_option("--resolver", str_from(text), DNS_PORT, &s->address, &s->port, e);
}

static int read_upstream(struct egress_options *o, const char *text, struct err *e)
{
    static const struct {
        struct str scheme;
        enum upstream_kind kind;
    } kinds[] = { { STR("http://"), UPSTREAM_CONNECT }, { STR("socks5://"), UPSTREAM_SOCKS5 } };
    struct str s = str_from(text);

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_starts(s, kinds[i].scheme)) {
            size_t n = kinds[i].scheme.n;

            o->upstream.kind = kinds[i].kind;
            return parse_address_option("--upstream", (struct str){ s.p + n, s.n - n }, 0,
                                        &o->upstream.address, &o->upstream.port, e);
        }
    return err_set(e, ERR_INVALID, "--upstream '%s': not http://ADDR:PORT or socks5://ADDR:PORT",
                   text);
}

static int read_bad_policy(struct egress_options *o, const char *text, struct err *e)
{
    o->retain = strcmp(text, "retain") == 0;
    if (!o->retain && strcmp(text, "fail_closed") != 0)
        return err_set(e, ERR_INVALID, "--on-bad-policy '%s': not fail_closed or retain", text);
    return 0;
}

static int read_worker(struct egress_options *o, const char *text, struct err *e)
{
    uint64_t n;
    int r = units_count(str_from(text), "--worker", 3, 1023, &n, e);

    if (r >= 0)
        o->worker = (int)n;
    return r;
}

static int read_listen(struct egress_options *o, const char *text, struct err *e)
{
    return parse_address_option("--listen", str_from(text), 0, &o->listen, &o->port, e);
}

static int print_version(struct egress_options *o, const char *text, struct err *e)
{
    puts("sandboxer-egress " SANDBOXER_VERSION);
    return 1;
}

static int print_help(struct egress_options *o, const char *text, struct err *e)
{
    fputs(help, stdout);
    return 1;
}

/* An option without a function sets the member at the offset: a text, or a flag. */
static const struct egress_option {
    const char *name;
    int argument; /* required_argument or no_argument */
    size_t offset;
    int (*read)(struct egress_options *o, const char *text, struct err *e); /* 1: exit */
} rows[] = {
#define TEXT(name, member)                                                                         \
    {                                                                                              \
        name, required_argument, .offset = offsetof(struct egress_options, member)                 \
    }
#define FLAG(name, member)                                                                         \
    {                                                                                              \
        name, no_argument, .offset = offsetof(struct egress_options, member)                       \
    }
    FLAG("standalone", standalone),
    { "listen", required_argument, .read = read_listen },
    FLAG("listen-anywhere", anywhere),
    TEXT("policy", policy),
    { "on-bad-policy", required_argument, .read = read_bad_policy },
    TEXT("audit", audit),
    { "resolver", required_argument, .read = read_resolver },
    { "upstream", required_argument, .read = read_upstream },
    { "worker", required_argument, .read = read_worker },
    TEXT("check", check),
    TEXT("explain", explain),
    TEXT("to", to),
    TEXT("method", method),
    TEXT("path", path),
    TEXT("upgrade", upgrade),
    TEXT("binary", binary),
    FLAG("verify-log", verify_log),
    FLAG("learn", learn),
    { "version", no_argument, .read = print_version },
    { "help", no_argument, .read = print_help },
};

/* Returns 1 after --help or --version. */
static int read_egress_options(int argc, char **argv, struct egress_options *o, struct err *e)
{
    struct option table[COUNT_OF(rows) + 1] = { 0 };
    int at = 0, r = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        table[i] = (struct option){ .name = rows[i].name, .has_arg = rows[i].argument };
    for (int c; r == 0 && (c = getopt_long(argc, argv, "", table, &at)) >= 0;) {
        char *member = (char *)o + rows[at].offset;

        if (c != 0)
            r = err_set(e, ERR_INVALID, "see --help for the options");
        else if (rows[at].read)
            r = rows[at].read(o, optarg, e);
        else if (rows[at].argument == required_argument)
            *(const char **)(void *)member = optarg;
        else
            *(bool *)member = true;
    }
    return r;
}

static int check_egress_options(const struct egress_options *o, int argc, char **argv,
                                struct err *e)
{
    bool has_question = o->to || o->method || o->path || o->upgrade || o->binary;
    int modes = o->standalone + (o->worker >= 0) + (o->check != NULL) + (o->explain != NULL) +
                o->verify_log + o->learn;

    if (optind < argc)
        return err_set(e, ERR_INVALID, "unexpected argument '%s'; see --help", argv[optind]);
    if (!o->anywhere && address_classify(&o->listen) != ADDRESS_LOOPBACK)
        return err_set(e, ERR_INVALID,
                       "--listen: other machines can reach this address, and every client has all "
                       "the rights of the policy; to allow that, add --listen-anywhere");
    if (modes != 1)
        return err_set(e, ERR_INVALID,
                       "give one of --standalone, --worker, --check, --explain, --verify-log and "
                       "--learn");
    if (o->explain && !o->to)
        return err_set(e, ERR_INVALID, "--explain needs --to HOST:PORT");
    if (has_question && !o->explain)
        return err_set(e, ERR_INVALID,
                       "--to, --method, --path, --upgrade and --binary need --explain");
    return 0;
}

bool options_read(int argc, char **argv, struct egress_options *ret, int *ret_status)
{
    struct err e;
    int r;

    *ret = (struct egress_options){ .worker = -1,
                                    .listen = { .bytes = { 127, 0, 0, 1 } },
                                    .port = LISTENERS_PROXY_PORT };
    r = read_egress_options(argc, argv, ret, &e);
    if (r == 0)
        r = check_egress_options(ret, argc, argv, &e);
    if (r < 0)
        fprintf(stderr, "sandboxer-egress: %s\n", e.msg);
    *ret_status = r < 0 ? 2 : 0;
    return r == 0;
}

int options_apply(const struct egress_options *o, struct loop *l, struct egress_state *ret,
                  struct err *e)
{
    struct dns_server found[DNS_SERVERS_MAX];
    size_t n = o->n_servers ? o->n_servers : resolv_conf_read(found);
    struct rlimit files;

    ret->loop = l;
    ret->upstream = o->upstream;
    ret->standalone = o->standalone;
    /* the limit that fence_enter() raises the process to */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        ret->files = files.rlim_max < INT_MAX ? (unsigned)files.rlim_max : INT_MAX;
    return dns_resolver_init(&ret->resolver, l, o->n_servers ? o->servers : found, n, e);
}
