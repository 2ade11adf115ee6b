#include "profile/egress.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "profile/words.h"
#include "yaml/file.h"

enum { HOST_MAX = 253, LABEL_MAX = 63, PATH_TEXT = 64 };

static const char *const protocols[] = { "tcp", "rest", "websocket", "graphql", NULL };
static const char *const accesses[] = { "none", "read-only", "read-write", "full", NULL };
static const char *const tls_modes[] = { "auto", "skip", NULL };
static const char *const enforcements[] = { "enforce", "audit", NULL };

#define AT(member) JSON_AT(struct egress_endpoint, member)

const struct json_field egress_fields[EGRESS_FIELD_COUNT] = {
    { "name", JSON_KIND_STR, AT(name), .min = 1, .max = 64, .doc = "Name for people and logs." },
    { "host", JSON_KIND_STR, AT(host), .min = 1, .max = HOST_MAX, .required = true,
      .doc = "DNS name, `*.example.com` (one label), `**.example.com` (any number), or address." },
    { "ports", JSON_KIND_ANY, AT(ports_), .required = true,
      .doc = "List of 1 to 32 port numbers." },
    { "protocol", JSON_KIND_ENUM, AT(protocol), .names = protocols, .preset = "tcp",
      .doc = "What is spoken there; all but tcp is inspected request by request." },
    { "access", JSON_KIND_ENUM, AT(access), .names = accesses, .preset = "none",
      .doc = "What inspected requests may do; needed with every protocol but tcp." },
    { "tls", JSON_KIND_ENUM, AT(tls), .names = tls_modes, .preset = "auto",
      .doc = "Terminate TLS where requests are inspected, or leave it alone." },
    { "enforcement", JSON_KIND_ENUM, AT(enforcement), .names = enforcements, .preset = "enforce",
      .doc = "Refuse what is not allowed, or only record it." },
    { "binaries", JSON_KIND_STRS, AT(binaries), .max = EGRESS_BINARIES_MAX,
      .doc = "Absolute paths of the programs that may connect; none means every program." },
    { "allowed_ips", JSON_KIND_STRS, AT(allowed_ips), .max = EGRESS_ADDRESSES_MAX,
      .doc = "Addresses or prefixes that the host must resolve to." },
};

static bool is_address(struct str s)
{
    unsigned char bytes[16];
    char text[INET6_ADDRSTRLEN];

    return str_copy(s, text, sizeof text) &&
           (inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1);
}

bool egress_prefix_valid(struct str prefix)
{
    struct str address, bits = str_cut(prefix, '/', &address);
    uint64_t n = 0;

    if (!is_address(address))
        return false;
    if (!bits.p)
        return true;
    return str_to_u64(bits, &n) && n <= (str_find(address, ':') < address.n ? 128 : 32);
}

static bool label_valid(struct str label, bool first)
{
    if (label.n == 0 || label.n > LABEL_MAX || label.p[0] == '-' || label.p[label.n - 1] == '-')
        return false;
    if (first && str_eq(label, STR("**")))
        return true;
    for (size_t i = 0, stars = 0; i < label.n; i++) {
        char c = label.p[i];

        if (!word_char(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") && !(c == '*' && first && ++stars == 1))
            return false;
    }
    return true;
}

/* Resolvers take a last label that begins with a digit for part of an address: 127.1, 0x7f.1. */
static bool top_label_valid(struct str label)
{
    return label.n && (label.p[0] < '0' || label.p[0] > '9');
}

bool egress_host_valid(struct str host)
{
    bool wild = str_find(host, '*') < host.n;
    struct str rest = host, label = { 0 };
    size_t labels = 0;

    if (is_address(host))
        return true;
    if (host.n > HOST_MAX || str_ends(host, STR(".")))
        return false;
    while (rest.n) {
        rest = str_cut(rest, '.', &label);
        if (!label_valid(label, labels++ == 0))
            return false;
    }
    return top_label_valid(label) && (!wild || labels >= 3);
}

/* Where an endpoint's field stands: "network.egress[2].host". */
struct spot {
    const struct json *document;
    size_t index;
    struct err *e;
};

#define fail(s, field, ...)                                                                        \
    ({                                                                                             \
        char path_[PATH_TEXT];                                                                     \
        snprintf(path_, sizeof path_, "network.egress[%zu].%s", (s)->index, (field));              \
        yaml_file_fail((s)->document, path_, (s)->e, __VA_ARGS__);                                 \
    })

static int read_ports(struct egress_endpoint *ep, const struct spot *s, struct arena *a)
{
    const struct json *list = ep->ports_;
    uint16_t *ports;

    if (list->type != JSON_ARRAY || list->list.n == 0 || list->list.n > EGRESS_PORTS_MAX)
        return fail(s, "ports", "must be a list of 1 to %d port numbers", EGRESS_PORTS_MAX);
    ports = arena_array(a, list->list.n, sizeof *ports);
    if (!ports)
        return err_set(s->e, ERR_TOO_BIG, "the profile needs more memory than is allowed");
    for (size_t i = 0; i < list->list.n; i++) {
        const struct json *v = &list->list.p[i];

        if (v->type != JSON_INT || v->i < 1 || v->i > UINT16_MAX)
            return fail(s, "ports", "a port is a whole number from 1 to 65535");
        ports[i] = (uint16_t)v->i;
    }
    ep->ports = ports;
    ep->port_count = list->list.n;
    return 0;
}

static int check_endpoint(const struct egress_endpoint *ep, const struct spot *s)
{
    if (!egress_host_valid(str_from(ep->host)))
        return fail(s, "host",
                    "must be a DNS name, '*.' or '**.' in front of at least two labels, or an "
                    "address");
    if (ep->protocol == EGRESS_TCP && ep->access != EGRESS_ACCESS_NONE)
        return fail(s, "access", "needs a protocol that is inspected, such as rest");
    if (ep->protocol != EGRESS_TCP && ep->access == EGRESS_ACCESS_NONE)
        return fail(s, "access", "must be read-only, read-write or full with the protocol %s",
                    protocols[ep->protocol]);
    if (ep->protocol != EGRESS_TCP && ep->tls == EGRESS_TLS_SKIP)
        return fail(s, "tls", "%s cannot be inspected inside TLS; write protocol: tcp or tls: auto",
                    protocols[ep->protocol]);
    for (size_t i = 0; i < ep->binaries.n; i++)
        if (!word_path(str_from(ep->binaries.p[i])))
            return fail(s, "binaries", "the path of a program must be absolute and normal");
    for (size_t i = 0; i < ep->allowed_ips.n; i++)
        if (!egress_prefix_valid(str_from(ep->allowed_ips.p[i])))
            return fail(s, "allowed_ips", "expected addresses or prefixes, as in 192.0.2.0/24");
    return 0;
}

int egress_check(const struct json_objects *endpoints, const struct json *document, struct arena *a,
                 struct err *e)
{
    struct egress_endpoint *all = endpoints->p;

    for (size_t i = 0; i < endpoints->n; i++) {
        struct spot s = { .document = document, .index = i, .e = e };
        int r = check_endpoint(&all[i], &s);

        if (r >= 0)
            r = read_ports(&all[i], &s, a);
        if (r < 0)
            return r;
    }
    return 0;
}
