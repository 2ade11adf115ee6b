/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/message.h"

#include "lib/dns/wire.h"

/* Ranges of types that ask for a transfer, a signature, "any", or for nothing there is. */
static bool is_record_type(uint16_t type)
{
    return type != 0 && type != DNS_OPT && (type < 128 || type > 255);
}

#define refuse(ret, rcode, ...) (*(ret) = (rcode), err_set(e, ERR_INVALID, __VA_ARGS__))

/* RFC 6891: the class is the size, the upper half of the TTL is rcode and version. */
static bool read_opt(struct dns_reader *in, struct dns_query *q, unsigned *ret_version)
{
    uint16_t type, size, upper, flags, length;
    uint8_t root;

    if (!dns_read_u8(in, &root) || root != 0 || !dns_read_u16(in, &type) || type != DNS_OPT ||
        !dns_read_u16(in, &size) || !dns_read_u16(in, &upper) || !dns_read_u16(in, &flags) ||
        !dns_read_u16(in, &length) || !dns_skip(in, length))
        return false;
    q->has_edns = true;
    q->edns_size = size;
    *ret_version = upper & 0xff;
    return true;
}

/* The question, and its bytes for the answer. */
static bool read_dns_question(struct dns_reader *in, struct dns_query *q, struct dns_name *name)
{
    size_t from = in->at;

    if (!dns_name_read(in->message, &in->at, false, name) || !dns_read_u16(in, &q->question.type) ||
        !dns_read_u16(in, &q->question.class))
        return false;
    q->wire_n_ = in->at - from;
    memcpy(q->wire_, in->message.p + from, q->wire_n_);
    memcpy(q->question.name, name->text, sizeof name->text);
    return true;
}

static int check_question(const struct dns_query *q, const struct dns_name *name,
                          enum dns_rcode *ret, struct err *e)
{
    if (name->odd)
        return refuse(ret, DNS_NXDOMAIN, "the name asked for is not a host name");
    if (q->question.class != DNS_IN)
        return refuse(ret, DNS_REFUSED, "DNS class %u is not served", q->question.class);
    if (!is_record_type(q->question.type))
        return refuse(ret, DNS_NOTIMP, "DNS type %u is not served", q->question.type);
    return 0;
}

int dns_parse_query(struct str message, struct dns_query *ret, enum dns_rcode *rcode, struct err *e)
{
    struct dns_reader in = { message, 0 };
    struct dns_name name;
    struct dns_head h;
    unsigned version = 0;

    *ret = (struct dns_query){ 0 };
    if (!dns_read_head(&in, &h) || h.flags & DNS_IS_ANSWER)
        return refuse(rcode, DNS_NOERROR, "the DNS message is not a query");
    ret->id = h.id;
    ret->recursion_desired = h.flags & DNS_RECURSION_DESIRED;
    if (h.flags & DNS_OPCODE)
        return refuse(rcode, DNS_NOTIMP, "the DNS message is not a standard query");
    if (h.questions != 1)
        return refuse(rcode, DNS_FORMERR, "the DNS query has %u questions", h.questions);
    if (h.answers || h.authorities || h.others > 1)
        return refuse(rcode, DNS_FORMERR, "the DNS query has records beside its question");
    if (!read_dns_question(&in, ret, &name) || (h.others && !read_opt(&in, ret, &version)) ||
        in.at != message.n)
        return refuse(rcode, DNS_FORMERR, "the DNS query is malformed");
    if (version > 0)
        return refuse(rcode, DNS_BADVERS, "EDNS version %u is not served", version);
    return check_question(ret, &name, rcode, e);
}

size_t dns_build_query(uint16_t id, struct str name, enum dns_type type, bool edns,
                       uint8_t out[static DNS_QUERY_MAX])
{
    struct dns_writer w = { out, 0 };
    size_t n;

    dns_write_head(&w, &(struct dns_head){ id, DNS_RECURSION_DESIRED, 1, 0, 0, edns });
    n = dns_name_write(name, out + w.n);
    if (n == 0)
        return 0;
    w.n += n;
    dns_write_u16(&w, (uint16_t)type);
    dns_write_u16(&w, DNS_IN);
    if (edns)
        dns_write_opt(&w, 0, 0);
    return w.n;
}

/* Label lengths are not letters, so all bytes of the name can be treated alike. */
void dns_mix_case(uint8_t *query, size_t n, const uint8_t bits[static DNS_CASE_BYTES])
{
    uint8_t *name = query + DNS_HEAD;

    for (size_t i = 0; i < n - DNS_HEAD && name[i]; i++)
        if (name[i] >= 'a' && name[i] <= 'z' && bits[i / 8] >> i % 8 & 1)
            name[i] = (uint8_t)(name[i] - 'a' + 'A');
}

bool dns_same_case(struct str answer, const uint8_t *query, size_t n)
{
    size_t name = strnlen((const char *)query + DNS_HEAD, n - DNS_HEAD);

    return answer.n >= DNS_HEAD + name && memcmp(answer.p + DNS_HEAD, query + DNS_HEAD, name) == 0;
}
