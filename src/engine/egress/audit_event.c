/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/audit_event.h"

#include <netinet/in.h>

#include "base/log.h"
#include "base/own.h"
#include "lib/crypto/hash.h"
#include "engine/egress/chain.h"

/* Writes events as JSON. An event is written for every request, so constant parts are prepared
 * texts and a line costs a few copies. Only texts from outside are escaped. */

#define OCSF_VERSION "1.8.0"

/* --- What OCSF calls things --- */

#define NAMED(key, id, name) "\"" key "_id\":" #id ",\"" key "\":\"" name "\""

#define CLASS(uid, name, category, category_name)                                                  \
    "\"class_uid\":" #uid ",\"class_name\":\"" name "\",\"category_uid\":" #category               \
    ",\"category_name\":\"" category_name "\","

/* `two` is the id as two digits, appended to the class id to form the type id. */
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
    /* the type of a request depends on its method */
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

/* Severity and status of every event; action and disposition of decisions. */
struct audit_outcome {
    struct str status, decided;
};

#define STATUS(severity, severity_name, status, status_name)                                       \
    STR("," NAMED("severity", severity, severity_name) "," NAMED("status", status, status_name))
#define DECIDED(action, action_name, disposition, disposition_name)                                \
    STR("," NAMED("action", action, action_name) "," NAMED("disposition", disposition,             \
                                                           disposition_name))

static const struct audit_outcome outcomes[] = {
    [EGRESS_DENIED] = { STATUS(3, "Medium", 2, "Failure"), DECIDED(2, "Denied", 2, "Blocked") },
    [EGRESS_ALLOWED] = { STATUS(1, "Informational", 1, "Success"),
                         DECIDED(1, "Allowed", 1, "Allowed") },
    [EGRESS_AUDITED] = { STATUS(2, "Low", 1, "Success"), DECIDED(3, "Observed", 17, "Logged") },
};
static const struct audit_outcome rejected = { STATUS(3, "Medium", 2, "Failure"),
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

/* How many bytes of each text a line contains. JSON escaping at most doubles them, because bytes
 * that are not printable become \xNN first. */
static const size_t shown_max[AUDIT_TEXTS_] = {
    [AUDIT_HOST] = 256,     [AUDIT_METHOD] = 32,  [AUDIT_PATH] = 768, [AUDIT_POLICY_NAME] = 160,
    [AUDIT_ENDPOINT] = 160, [AUDIT_RULE] = 256,   [AUDIT_CODE] = 64,  [AUDIT_WHY] = 256,
    [AUDIT_NEXT] = 256,     [AUDIT_BINARY] = 256, [AUDIT_HASH] = 65,  [AUDIT_PARENT] = 256,
    [AUDIT_HOW] = 64,
};

enum { SHOWN_MAX = 768 };

/* --- Writing --- */

struct audit_line {
    char *p; /* of EGRESS_AUDIT_LINE_MAX bytes */
    size_t n;
    bool full;
};

static void append_to_line(struct audit_line *l, struct str s)
{
    /* leaves room for the chain members */
    if (s.n > EGRESS_AUDIT_LINE_MAX - CHAIN_TEXT_MAX - l->n) {
        l->full = true;
        return;
    }
    memcpy(l->p + l->n, s.p, s.n);
    l->n += s.n;
}

static bool is_plain_audit_text(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~' || s.p[i] == '\\' || s.p[i] == '"')
            return false;
    return true;
}

/* Writes the member, unless its text is empty; `key` is written unchanged: `,"message":"`. */
static void write_line_member(struct audit_line *l, struct str key, struct str s, size_t max)
{
    char shown[SHOWN_MAX];

    if (s.n == 0)
        return;
    append_to_line(l, key);
    if (s.n < max && is_plain_audit_text(s)) {
        append_to_line(l, s);
    } else {
        log_printable(s, shown, max);
        for (const char *c = shown; *c; c++) {
            if (*c == '"' || *c == '\\')
                append_to_line(l, STR("\\"));
            append_to_line(l, (struct str){ c, 1 });
        }
    }
    append_to_line(l, STR("\""));
}

static void write_event_text(struct audit_line *l, struct str key, const struct audit_event *ev,
                             enum audit_text which)
{
    write_line_member(l, key, ev->text[which], shown_max[which]);
}

static void write_line_address(struct audit_line *l, struct str key, const struct address *a)
{
    char text[ADDRESS_TEXT_MAX];

    append_to_line(l, key);
    append_to_line(l, address_text(a, text));
    append_to_line(l, STR("\""));
}

static void write_line_number(struct audit_line *l, struct str key, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    append_to_line(l, key);
    append_to_line(l, (struct str){ digits + at, sizeof digits - at });
}

/* --- The parts of an event --- */

/* The type of a request with that method; empty if OCSF does not define the method. */
static struct str type_of_method(struct str method)
{
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        if (str_eq(method, requests[i].method))
            return requests[i].type;
    return (struct str){ 0 };
}

static uint64_t to_ms(int64_t ns)
{
    return ns > 0 ? (uint64_t)(ns / NS_PER_MS) : 0;
}

static void write_event_head(struct audit_line *l, const struct audit_event *ev)
{
    struct str type =
        ev->what == AUDIT_REQUEST ? type_of_method(ev->text[AUDIT_METHOD]) : types[ev->what];

    write_line_number(l, STR("{\"time\":"), to_ms(ev->time));
    append_to_line(l, STR(","));
    append_to_line(l, type.n ? type : other_request);
    if (ev->since) {
        write_line_number(l, STR(",\"count\":"), ev->count);
        write_line_number(l, STR(",\"start_time\":"), to_ms(ev->since));
        write_line_number(l, STR(",\"end_time\":"), to_ms(ev->time));
    }
}

static void write_event_outcome(struct audit_line *l, const struct audit_event *ev)
{
    const struct audit_outcome *o = ev->what == AUDIT_REJECT ? &rejected : &outcomes[ev->verdict];

    append_to_line(l, o->status);
    write_event_text(l, STR(",\"status_code\":\""), ev, AUDIT_CODE);
    write_event_text(l, STR(",\"status_detail\":\""), ev, AUDIT_HOW);
    write_event_text(l, STR(",\"message\":\""), ev, AUDIT_WHY);
    if (ev->what != AUDIT_POLICY)
        append_to_line(l, o->decided);
}

/* The class of policy events requires a device. */
static void write_event_origin(struct audit_line *l, const struct audit_event *ev,
                               struct str box_id)
{
    append_to_line(l, STR(",\"metadata\":{\"version\":\"" OCSF_VERSION
                          "\",\"product\":{\"name\":\"sandboxer\","
                          "\"vendor_name\":\"sandboxer\",\"version\":\"" SANDBOXER_VERSION "\"},"
                          "\"profiles\":[\"security_control\",\"host\",\"container\"]"));
    if (ev->id) {
        write_line_number(l, STR(",\"correlation_uid\":\""), ev->id);
        append_to_line(l, STR("\""));
    }
    append_to_line(l, STR("}"));
    if (ev->what != AUDIT_POLICY)
        return;
    write_line_member(l, STR(",\"device\":{\"type_id\":6,\"type\":\"Virtual\",\"uid\":\""), box_id,
                      ID_MAX);
    append_to_line(l, STR("}"));
}

static void write_event_source(struct audit_line *l, const struct audit_event *ev,
                               struct str box_id)
{
    write_line_member(l, STR(",\"src_endpoint\":{\"instance_uid\":\""), box_id, ID_MAX);
    write_line_member(l, STR(",\"container\":{\"uid\":\""), box_id, ID_MAX);
    append_to_line(l, STR("}"));
    if (ev->has_client)
        write_line_address(l, STR(",\"ip\":\""), &ev->client);
    if (ev->client_port)
        write_line_number(l, STR(",\"port\":"), ev->client_port);
    append_to_line(l, STR("}"));
}

static void write_event_destination(struct audit_line *l, const struct audit_event *ev)
{
    bool named = ev->text[AUDIT_HOST].n > 0;

    if (!ev->has_to && !named)
        return;
    append_to_line(l, STR(",\"dst_endpoint\":{"));
    write_event_text(l, STR("\"hostname\":\""), ev, AUDIT_HOST);
    if (ev->has_to)
        write_line_address(l, named ? STR(",\"ip\":\"") : STR("\"ip\":\""), &ev->to);
    if (ev->port)
        write_line_number(l, STR(",\"port\":"), ev->port);
    append_to_line(l, STR("}"));
}

static void write_event_connection(struct audit_line *l, const struct audit_event *ev)
{
    append_to_line(l, STR(",\"connection_info\":{" NAMED("direction", 2, "Outbound")));
    if (ev->protocol)
        write_line_number(l, STR(",\"protocol_num\":"), (uint64_t)ev->protocol);
    for (size_t i = 0; i < COUNT_OF(protocols); i++)
        if (protocols[i].number == ev->protocol)
            write_line_member(l, STR(",\"protocol_name\":\""), protocols[i].name, SHOWN_MAX);
    append_to_line(l, STR("}"));
}

static void write_event_rule(struct audit_line *l, const struct audit_event *ev)
{
    if (ev->text[AUDIT_POLICY_NAME].n) {
        write_event_text(l, STR(",\"policy\":{\"name\":\""), ev, AUDIT_POLICY_NAME);
        append_to_line(l, STR("}"));
    }
    if (ev->text[AUDIT_RULE].n) {
        write_event_text(l, STR(",\"firewall_rule\":{\"name\":\""), ev, AUDIT_RULE);
        append_to_line(l, ev->what == AUDIT_REJECT    ? STR(",\"type\":\"nftables\"}")
                          : ev->what == AUDIT_REQUEST ? STR(",\"type\":\"l7\"}")
                                                      : STR(",\"type\":\"policy\"}"));
    }
}

/* OCSF requires a file name. */
static void write_event_binary(struct audit_line *l, const struct audit_event *ev)
{
    struct str name = ev->text[AUDIT_BINARY];
    const char *slash = name.n ? memrchr(name.p, '/', name.n) : NULL;

    if (slash)
        name = (struct str){ slash + 1, (size_t)(name.p + name.n - slash - 1) };
    if (name.n == 0)
        return;
    append_to_line(l, STR(",\"file\":{\"type_id\":1"));
    write_line_member(l, STR(",\"name\":\""), name, shown_max[AUDIT_BINARY]);
    write_event_text(l, STR(",\"path\":\""), ev, AUDIT_BINARY);
    if (ev->text[AUDIT_HASH].n) {
        append_to_line(l, STR(",\"hashes\":[{" NAMED("algorithm", 3, "SHA-256")));
        write_event_text(l, STR(",\"value\":\""), ev, AUDIT_HASH);
        append_to_line(l, STR("}]"));
    }
    append_to_line(l, STR("}"));
}

static void write_event_actor(struct audit_line *l, const struct audit_event *ev)
{
    if (!ev->known)
        return;
    write_line_number(l, STR(",\"actor\":{\"process\":{\"pid\":"),
                      ev->pid > 0 ? (uint64_t)ev->pid : 0);
    write_event_binary(l, ev);
    write_line_number(l, STR(",\"user\":{\"uid\":\""), ev->uid);
    append_to_line(l, STR("\"}}}"));
}

static void write_event_request(struct audit_line *l, const struct audit_event *ev)
{
    append_to_line(l, STR(",\"http_request\":{\"url\":{"));
    write_line_number(l, STR("\"port\":"), ev->port);
    write_event_text(l, STR(",\"hostname\":\""), ev, AUDIT_HOST);
    if (ev->text[AUDIT_HOST].n == 0 && ev->has_to)
        write_line_address(l, STR(",\"hostname\":\""), &ev->to);
    write_event_text(l, STR(",\"path\":\""), ev, AUDIT_PATH);
    append_to_line(l, STR("}"));
    if (type_of_method(ev->text[AUDIT_METHOD]).n)
        write_event_text(l, STR(",\"http_method\":\""), ev, AUDIT_METHOD);
    append_to_line(l, STR("}"));
}

static void write_event_unmapped(struct audit_line *l, const struct audit_event *ev)
{
    write_line_number(l, STR(",\"unmapped\":{\"generation\":"), ev->generation);
    if (ev->adapter != AUDIT_NO_ADAPTER)
        write_line_member(l, STR(",\"adapter\":\""),
                          str_from(egress_adapter_name((enum egress_adapter)ev->adapter)),
                          SHOWN_MAX);
    if (ev->what == AUDIT_REQUEST && !type_of_method(ev->text[AUDIT_METHOD]).n)
        write_event_text(l, STR(",\"method\":\""), ev, AUDIT_METHOD);
    write_event_text(l, STR(",\"endpoint\":\""), ev, AUDIT_ENDPOINT);
    write_event_text(l, STR(",\"parent\":\""), ev, AUDIT_PARENT);
    write_event_text(l, STR(",\"next\":\""), ev, AUDIT_NEXT);
    append_to_line(l, STR("}"));
}

size_t audit_event_write(const struct audit_event *ev, const char *box_id,
                         char out[static EGRESS_AUDIT_LINE_MAX])
{
    struct audit_line l = { .p = out };
    struct str id = str_from(box_id);

    write_event_head(&l, ev);
    write_event_outcome(&l, ev);
    write_event_origin(&l, ev, id);
    if (ev->what != AUDIT_POLICY) {
        write_event_source(&l, ev, id);
        write_event_destination(&l, ev);
        write_event_connection(&l, ev);
        write_event_rule(&l, ev);
    }
    write_event_actor(&l, ev);
    if (ev->what == AUDIT_REQUEST)
        write_event_request(&l, ev);
    if (ev->what == AUDIT_LOOKUP) {
        write_event_text(&l, STR(",\"query\":{\"hostname\":\""), ev, AUDIT_HOST);
        append_to_line(&l, STR("}"));
    }
    if (ev->what == AUDIT_CLOSE) {
        write_line_number(&l, STR(",\"duration\":"), to_ms(ev->took_ns));
        write_line_number(&l, STR(",\"traffic\":{\"bytes_out\":"), ev->bytes_out);
        write_line_number(&l, STR(",\"bytes_in\":"), ev->bytes_in);
        append_to_line(&l, STR("}"));
    }
    write_event_unmapped(&l, ev);
    append_to_line(&l, STR("}\n"));
    return l.full ? 0 : l.n;
}

/* --- Kinds and copies --- */

static void hash_event_number(struct crypto_sha256 *h, uint64_t v)
{
    crypto_sha256_add(h, (struct str){ (const char *)&v, sizeof v });
}

static void hash_event_text(struct crypto_sha256 *h, struct str s)
{
    hash_event_number(h, s.n);
    crypto_sha256_add(h, s);
}

void audit_event_kind(const struct audit_event *ev, unsigned char out[static AUDIT_KIND_SIZE])
{
    static const enum audit_text same[] = { AUDIT_HOST, AUDIT_METHOD, AUDIT_PATH,
                                            AUDIT_RULE, AUDIT_CODE,   AUDIT_BINARY };
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char digest[CRYPTO_SHA256_SIZE];

    hash_event_number(&h, (uint64_t)ev->what << 32 | (uint32_t)ev->adapter);
    hash_event_number(&h, (uint64_t)ev->protocol << 32 | ev->port);
    if (ev->has_to)
        crypto_sha256_add(&h, (struct str){ (const char *)&ev->to.bytes, sizeof ev->to.bytes });
    for (size_t i = 0; i < COUNT_OF(same); i++)
        hash_event_text(&h, ev->text[same[i]]);
    if (ev->what == AUDIT_MALFORMED)
        hash_event_text(&h, ev->text[AUDIT_WHY]);
    crypto_sha256_end(&h, digest);
    memcpy(out, digest, AUDIT_KIND_SIZE);
}

/* The part of a text that lines show. */
static size_t shown_text_length(const struct audit_event *ev, size_t which)
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
        n += shown_text_length(ev, i);
    copy = new0(sizeof *copy + n);
    *copy = *ev;
    at = (char *)(copy + 1);
    for (size_t i = 0; i < AUDIT_TEXTS_; i++) {
        copy->text[i] = (struct str){ at, shown_text_length(ev, i) };
        if (copy->text[i].n)
            memcpy(at, ev->text[i].p, copy->text[i].n);
        at += copy->text[i].n;
    }
    return copy;
}
