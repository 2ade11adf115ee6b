#include "egress/audit_event.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "crypto/hash.h"
#include "egress/chain.h"

/* Events are written for every request, so their constant parts are text already: a line costs a
 * few copies. Texts from outside are the only ones that are escaped. */

#define OCSF_VERSION "1.8.0"

/* --- What OCSF calls things --- */

#define NAMED(key, id, name) "\"" key "_id\":" #id ",\"" key "\":\"" name "\""

#define CLASS(uid, name, category, category_name)                                                  \
    "\"class_uid\":" #uid ",\"class_name\":\"" name "\",\"category_uid\":" #category               \
    ",\"category_name\":\"" category_name "\","

/* two is the id in two digits: a type's is behind the class'. */
#define ACTIVITY(uid, class_name, id, two, name)                                                   \
    "\"activity_id\":" #id ",\"activity_name\":\"" name "\",\"type_uid\":" #uid two                \
    ",\"type_name\":\"" class_name ": " name "\""

#define NETWORK(id, two, name)                                                                     \
    STR(CLASS(4001, "Network Activity", 4, "Network Activity")                                     \
            ACTIVITY(4001, "Network Activity", id, two, name))
#define HTTP(id, two, name)                                                                        \
    STR(CLASS(4002, "HTTP Activity", 4, "Network Activity")                                        \
            ACTIVITY(4002, "HTTP Activity", id, two, name))
#define DNS(id, two, name)                                                                         \
    STR(CLASS(4003, "DNS Activity", 4, "Network Activity")                                         \
            ACTIVITY(4003, "DNS Activity", id, two, name))

static const struct str types[] = {
    /* a request's is its method's */
    [AUDIT_ALLOW] = NETWORK(1, "01", "Open"),
    [AUDIT_DENY] = NETWORK(5, "05", "Refuse"),
    [AUDIT_CLOSE] = NETWORK(2, "02", "Close"),
    [AUDIT_LOOKUP] = DNS(1, "01", "Query"),
    [AUDIT_REJECT] = NETWORK(5, "05", "Refuse"),
    [AUDIT_MALFORMED] = NETWORK(5, "05", "Refuse"),
    [AUDIT_POLICY] = STR(CLASS(5019, "Device Config State Change", 5, "Discovery")
                             ACTIVITY(5019, "Device Config State Change", 1, "01", "Log")),
    [AUDIT_MORE] = NETWORK(5, "05", "Refuse"),
};

static const struct {
    struct str method, type;
} requests[] = {
    { STR("GET"), HTTP(3, "03", "Get") },         { STR("POST"), HTTP(6, "06", "Post") },
    { STR("HEAD"), HTTP(4, "04", "Head") },       { STR("PUT"), HTTP(7, "07", "Put") },
    { STR("DELETE"), HTTP(2, "02", "Delete") },   { STR("OPTIONS"), HTTP(5, "05", "Options") },
    { STR("PATCH"), HTTP(9, "09", "Patch") },     { STR("TRACE"), HTTP(8, "08", "Trace") },
    { STR("CONNECT"), HTTP(1, "01", "Connect") },
};
static const struct str other_request = HTTP(99, "99", "Other");

/* Severity and status of every event; action and disposition of what was decided. */
struct outcome {
    struct str status, decided;
};

#define STATUS(severity, severity_name, status, status_name)                                       \
    STR("," NAMED("severity", severity, severity_name) "," NAMED("status", status, status_name))
#define DECIDED(action, action_name, disposition, disposition_name)                                \
    STR("," NAMED("action", action, action_name) "," NAMED("disposition", disposition,             \
                                                           disposition_name))

static const struct outcome outcomes[] = {
    [EGRESS_DENIED] = { STATUS(3, "Medium", 2, "Failure"), DECIDED(2, "Denied", 2, "Blocked") },
    [EGRESS_ALLOWED] = { STATUS(1, "Informational", 1, "Success"),
                         DECIDED(1, "Allowed", 1, "Allowed") },
    [EGRESS_AUDITED] = { STATUS(2, "Low", 1, "Success"), DECIDED(3, "Observed", 17, "Logged") },
};
static const struct outcome rejected = { STATUS(3, "Medium", 2, "Failure"),
                                         DECIDED(2, "Denied", 25, "Rejected") };

static const struct {
    int number;
    struct str name;
} protocols[] = {
    { IPPROTO_TCP, STR("tcp") },         { IPPROTO_UDP, STR("udp") },
    { IPPROTO_ICMP, STR("icmp") },       { IPPROTO_ICMPV6, STR("ipv6-icmp") },
    { IPPROTO_SCTP, STR("sctp") },       { IPPROTO_DCCP, STR("dccp") },
    { IPPROTO_UDPLITE, STR("udplite") }, { IPPROTO_GRE, STR("gre") },
    { IPPROTO_ESP, STR("esp") },
};

/* Bytes of each text that a line shows. JSON doubles one at most: what is not printable is written
 * as \xNN first. */
static const size_t shown_max[AUDIT_TEXTS_] = {
    [AUDIT_HOST] = 256,     [AUDIT_METHOD] = 32,  [AUDIT_PATH] = 768, [AUDIT_POLICY_NAME] = 160,
    [AUDIT_ENDPOINT] = 160, [AUDIT_RULE] = 256,   [AUDIT_CODE] = 64,  [AUDIT_WHY] = 256,
    [AUDIT_NEXT] = 256,     [AUDIT_BINARY] = 256, [AUDIT_HASH] = 65,  [AUDIT_PARENT] = 256,
    [AUDIT_HOW] = 64,
};

enum { SHOWN_MAX = 768 };

/* --- Writing --- */

struct line {
    char *p; /* of EGRESS_AUDIT_LINE_MAX bytes */
    size_t n;
    bool full;
};

static void put(struct line *l, struct str s)
{
    if (s.n > EGRESS_AUDIT_LINE_MAX - CHAIN_TEXT_MAX - l->n) { /* the chain's part comes behind */
        l->full = true;
        return;
    }
    memcpy(l->p + l->n, s.p, s.n);
    l->n += s.n;
}

static void put_uint(struct line *l, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    put(l, (struct str){ digits + at, sizeof digits - at });
}

static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~' || s.p[i] == '\\' || s.p[i] == '"')
            return false;
    return true;
}

static void put_odd(struct line *l, struct str s, size_t max)
{
    char shown[SHOWN_MAX];

    log_printable(s, shown, max);
    for (const char *c = shown; *c; c++) {
        if (*c == '"' || *c == '\\')
            put(l, STR("\\"));
        put(l, (struct str){ c, 1 });
    }
}

/* The member, unless there is no text for it; key is written as it is: `,"message":"`. */
static void put_member(struct line *l, struct str key, struct str s, size_t max)
{
    if (s.n == 0)
        return;
    put(l, key);
    if (s.n < max && is_plain(s))
        put(l, s);
    else
        put_odd(l, s, max);
    put(l, STR("\""));
}

static void put_text(struct line *l, struct str key, const struct audit_event *ev,
                     enum audit_text which)
{
    put_member(l, key, ev->text[which], shown_max[which]);
}

static void put_address(struct line *l, struct str key, const struct address *a)
{
    char text[ADDRESS_TEXT_MAX];

    put(l, key);
    put(l, address_text(a, text));
    put(l, STR("\""));
}

static void put_number(struct line *l, struct str key, uint64_t v)
{
    put(l, key);
    put_uint(l, v);
}

/* --- The parts of an event --- */

/* The type of a request with that method; empty: OCSF knows no such method. */
static struct str type_of_method(struct str method)
{
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        if (str_eq(method, requests[i].method))
            return requests[i].type;
    return (struct str){ 0 };
}

static struct str type_of(const struct audit_event *ev)
{
    struct str type;

    if (ev->what != AUDIT_REQUEST)
        return types[ev->what];
    type = type_of_method(ev->text[AUDIT_METHOD]);
    return type.n ? type : other_request;
}

static uint64_t to_ms(int64_t ns)
{
    return ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
}

static void put_head(struct line *l, const struct audit_event *ev)
{
    put_number(l, STR("{\"time\":"), to_ms(ev->time));
    put(l, STR(","));
    put(l, type_of(ev));
    if (ev->since) {
        put_number(l, STR(",\"count\":"), ev->count);
        put_number(l, STR(",\"start_time\":"), to_ms(ev->since));
        put_number(l, STR(",\"end_time\":"), to_ms(ev->time));
    }
}

static void put_outcome(struct line *l, const struct audit_event *ev)
{
    const struct outcome *o = ev->what == AUDIT_REJECT ? &rejected : &outcomes[ev->verdict];

    put(l, o->status);
    put_text(l, STR(",\"status_code\":\""), ev, AUDIT_CODE);
    put_text(l, STR(",\"status_detail\":\""), ev, AUDIT_HOW);
    put_text(l, STR(",\"message\":\""), ev, AUDIT_WHY);
    if (ev->what != AUDIT_POLICY)
        put(l, o->decided);
}

/* A policy's class demands a device. */
static void put_origin(struct line *l, const struct audit_event *ev, struct str box_id)
{
    put(l,
        STR(",\"metadata\":{\"version\":\"" OCSF_VERSION "\",\"product\":{\"name\":\"sandboxer\","
            "\"vendor_name\":\"sandboxer\",\"version\":\"" SANDBOXER_VERSION "\"},"
            "\"profiles\":[\"security_control\",\"host\",\"container\"]"));
    if (ev->id) {
        put_number(l, STR(",\"correlation_uid\":\""), ev->id);
        put(l, STR("\""));
    }
    put(l, STR("}"));
    if (ev->what != AUDIT_POLICY)
        return;
    put_member(l, STR(",\"device\":{\"type_id\":6,\"type\":\"Virtual\",\"uid\":\""), box_id,
               ID_MAX);
    put(l, STR("}"));
}

static void put_source(struct line *l, const struct audit_event *ev, struct str box_id)
{
    put_member(l, STR(",\"src_endpoint\":{\"instance_uid\":\""), box_id, ID_MAX);
    put_member(l, STR(",\"container\":{\"uid\":\""), box_id, ID_MAX);
    put(l, STR("}"));
    if (ev->has_client)
        put_address(l, STR(",\"ip\":\""), &ev->client);
    if (ev->client_port)
        put_number(l, STR(",\"port\":"), ev->client_port);
    put(l, STR("}"));
}

static void put_destination(struct line *l, const struct audit_event *ev)
{
    bool named = ev->text[AUDIT_HOST].n > 0;

    if (!ev->has_to && !named)
        return;
    put(l, STR(",\"dst_endpoint\":{"));
    put_text(l, STR("\"hostname\":\""), ev, AUDIT_HOST);
    if (ev->has_to)
        put_address(l, named ? STR(",\"ip\":\"") : STR("\"ip\":\""), &ev->to);
    if (ev->port)
        put_number(l, STR(",\"port\":"), ev->port);
    put(l, STR("}"));
}

static void put_connection(struct line *l, const struct audit_event *ev)
{
    put(l, STR(",\"connection_info\":{" NAMED("direction", 2, "Outbound")));
    if (ev->protocol)
        put_number(l, STR(",\"protocol_num\":"), (uint64_t)ev->protocol);
    for (size_t i = 0; i < COUNT_OF(protocols); i++)
        if (protocols[i].number == ev->protocol)
            put_member(l, STR(",\"protocol_name\":\""), protocols[i].name, SHOWN_MAX);
    put(l, STR("}"));
}

static void put_rule(struct line *l, const struct audit_event *ev)
{
    if (ev->text[AUDIT_POLICY_NAME].n) {
        put_text(l, STR(",\"policy\":{\"name\":\""), ev, AUDIT_POLICY_NAME);
        put(l, STR("}"));
    }
    if (ev->text[AUDIT_RULE].n) {
        put_text(l, STR(",\"firewall_rule\":{\"name\":\""), ev, AUDIT_RULE);
        put(l, ev->what == AUDIT_REJECT    ? STR(",\"type\":\"nftables\"}")
               : ev->what == AUDIT_REQUEST ? STR(",\"type\":\"l7\"}")
                                           : STR(",\"type\":\"policy\"}"));
    }
}

static struct str base_name(struct str path)
{
    for (size_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return (struct str){ path.p + i, path.n - i };
    return path;
}

/* A file has a name. */
static void put_binary(struct line *l, const struct audit_event *ev)
{
    struct str name = base_name(ev->text[AUDIT_BINARY]);

    if (name.n == 0)
        return;
    put(l, STR(",\"file\":{\"type_id\":1"));
    put_member(l, STR(",\"name\":\""), name, shown_max[AUDIT_BINARY]);
    put_text(l, STR(",\"path\":\""), ev, AUDIT_BINARY);
    if (ev->text[AUDIT_HASH].n) {
        put(l, STR(",\"hashes\":[{" NAMED("algorithm", 3, "SHA-256")));
        put_text(l, STR(",\"value\":\""), ev, AUDIT_HASH);
        put(l, STR("}]"));
    }
    put(l, STR("}"));
}

static void put_actor(struct line *l, const struct audit_event *ev)
{
    if (!ev->known)
        return;
    put_number(l, STR(",\"actor\":{\"process\":{\"pid\":"), ev->pid > 0 ? (uint64_t)ev->pid : 0);
    put_binary(l, ev);
    put_number(l, STR(",\"user\":{\"uid\":\""), ev->uid);
    put(l, STR("\"}}}"));
}

static void put_request(struct line *l, const struct audit_event *ev)
{
    put(l, STR(",\"http_request\":{\"url\":{"));
    put_number(l, STR("\"port\":"), ev->port);
    put_text(l, STR(",\"hostname\":\""), ev, AUDIT_HOST);
    if (ev->text[AUDIT_HOST].n == 0 && ev->has_to)
        put_address(l, STR(",\"hostname\":\""), &ev->to);
    put_text(l, STR(",\"path\":\""), ev, AUDIT_PATH);
    put(l, STR("}"));
    if (type_of_method(ev->text[AUDIT_METHOD]).n)
        put_text(l, STR(",\"http_method\":\""), ev, AUDIT_METHOD);
    put(l, STR("}"));
}

static void put_query(struct line *l, const struct audit_event *ev)
{
    put_text(l, STR(",\"query\":{\"hostname\":\""), ev, AUDIT_HOST);
    put(l, STR("}"));
}

static void put_traffic(struct line *l, const struct audit_event *ev)
{
    put_number(l, STR(",\"duration\":"), to_ms(ev->took_ns));
    put_number(l, STR(",\"traffic\":{\"bytes_out\":"), ev->bytes_out);
    put_number(l, STR(",\"bytes_in\":"), ev->bytes_in);
    put(l, STR("}"));
}

static void put_unmapped(struct line *l, const struct audit_event *ev)
{
    put_number(l, STR(",\"unmapped\":{\"generation\":"), ev->generation);
    if (ev->adapter != AUDIT_NO_ADAPTER)
        put_member(l, STR(",\"adapter\":\""),
                   str_from(egress_adapter_name((enum egress_adapter)ev->adapter)), SHOWN_MAX);
    if (ev->what == AUDIT_REQUEST && !type_of_method(ev->text[AUDIT_METHOD]).n)
        put_text(l, STR(",\"method\":\""), ev, AUDIT_METHOD);
    put_text(l, STR(",\"endpoint\":\""), ev, AUDIT_ENDPOINT);
    put_text(l, STR(",\"parent\":\""), ev, AUDIT_PARENT);
    put_text(l, STR(",\"next\":\""), ev, AUDIT_NEXT);
    put(l, STR("}"));
}

size_t audit_event_write(const struct audit_event *ev, const char *box_id,
                         char out[static EGRESS_AUDIT_LINE_MAX])
{
    struct line l = { .p = out };
    struct str id = str_from(box_id);

    put_head(&l, ev);
    put_outcome(&l, ev);
    put_origin(&l, ev, id);
    if (ev->what != AUDIT_POLICY) {
        put_source(&l, ev, id);
        put_destination(&l, ev);
        put_connection(&l, ev);
        put_rule(&l, ev);
    }
    put_actor(&l, ev);
    if (ev->what == AUDIT_REQUEST)
        put_request(&l, ev);
    if (ev->what == AUDIT_LOOKUP)
        put_query(&l, ev);
    if (ev->what == AUDIT_CLOSE)
        put_traffic(&l, ev);
    put_unmapped(&l, ev);
    put(&l, STR("}\n"));
    return l.full ? 0 : l.n;
}

/* --- Kinds and copies --- */

static void add_number(struct crypto_sha256 *h, uint64_t v)
{
    crypto_sha256_add(h, (struct str){ (const char *)&v, sizeof v });
}

static void add_text(struct crypto_sha256 *h, struct str s)
{
    add_number(h, s.n);
    crypto_sha256_add(h, s);
}

void audit_event_kind(const struct audit_event *ev, unsigned char out[static AUDIT_KIND_SIZE])
{
    static const enum audit_text same[] = { AUDIT_HOST, AUDIT_METHOD, AUDIT_PATH,
                                            AUDIT_RULE, AUDIT_CODE,   AUDIT_BINARY };
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char digest[CRYPTO_SHA256_SIZE];

    add_number(&h, (uint64_t)ev->what << 32 | (uint32_t)ev->adapter);
    add_number(&h, (uint64_t)ev->protocol << 32 | ev->port);
    if (ev->has_to)
        crypto_sha256_add(&h, (struct str){ (const char *)&ev->to.bytes, sizeof ev->to.bytes });
    for (size_t i = 0; i < COUNT_OF(same); i++)
        add_text(&h, ev->text[same[i]]);
    if (ev->what == AUDIT_MALFORMED)
        add_text(&h, ev->text[AUDIT_WHY]);
    crypto_sha256_end(&h, digest);
    memcpy(out, digest, AUDIT_KIND_SIZE);
}

/* More of a text is never shown. */
static size_t kept(const struct audit_event *ev, size_t which)
{
    size_t n = ev->text[which].n;

    return n < shown_max[which] ? n : shown_max[which];
}

struct audit_event *audit_event_dup(const struct audit_event *ev)
{
    struct audit_event *copy;
    size_t n = 0;
    char *at;

    for (size_t i = 0; i < AUDIT_TEXTS_; i++)
        n += kept(ev, i);
    copy = malloc(sizeof *copy + n);
    if (!copy)
        abort();
    *copy = *ev;
    at = (char *)(copy + 1);
    for (size_t i = 0; i < AUDIT_TEXTS_; i++) {
        copy->text[i] = (struct str){ at, kept(ev, i) };
        if (copy->text[i].n)
            memcpy(at, ev->text[i].p, copy->text[i].n);
        at += copy->text[i].n;
    }
    return copy;
}
