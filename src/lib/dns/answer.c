/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/message.h"

#include "lib/dns/wire.h"

/* --- Writing --- */

enum {
    RECORD = 12, /* bytes of a record with a pointer for its name, without its data */
    TO_QUESTION = 0xc000 | DNS_HEAD,
};

static uint16_t address_type(const struct address *a)
{
    return a->v6 ? DNS_AAAA : DNS_A;
}

static uint16_t data_length(uint16_t type)
{
    return type == DNS_AAAA ? 16 : 4;
}

static void write_address_record(struct dns_writer *w, const struct address *a, uint32_t ttl)
{
    uint16_t type = address_type(a);

    dns_write_u16(w, TO_QUESTION);
    dns_write_u16(w, type);
    dns_write_u16(w, DNS_IN);
    dns_write_u32(w, ttl);
    dns_write_u16(w, data_length(type));
    dns_write_bytes(w, a->bytes, data_length(type));
}

/* error: an extended error, which needs EDNS; 0: none. */
static size_t build_answer(const struct dns_query *q, enum dns_rcode rcode, uint16_t error,
                           const struct address *addresses, size_t n, uint32_t ttl,
                           struct dns_writer w, size_t size)
{
    size_t opt = DNS_OPT_BYTES + (error ? DNS_EDE_BYTES : 0), count = 0;
    size_t fixed = DNS_HEAD + q->wire_n_ + (q->has_edns ? opt : 0);
    size_t each = RECORD + data_length(q->question.type);
    struct dns_head h = { .id = q->id, .questions = q->wire_n_ > 0, .others = q->has_edns };
    bool fits;

    if (size < fixed)
        return 0;
    for (size_t i = 0; rcode == DNS_NOERROR && q->wire_n_ > 0 && i < n; i++)
        count += address_type(&addresses[i]) == q->question.type;
    fits = count <= (size - fixed) / each && count <= UINT16_MAX;
    h.answers = fits ? (uint16_t)count : 0;
    h.flags =
        (uint16_t)(DNS_IS_ANSWER | DNS_RECURSION_AVAILABLE | ((unsigned)rcode & DNS_RCODE) |
                   (q->recursion_desired ? DNS_RECURSION_DESIRED : 0) | (fits ? 0 : DNS_TRUNCATED));
    dns_write_head(&w, &h);
    dns_write_bytes(&w, q->wire_, q->wire_n_);
    for (size_t i = 0; h.answers > 0 && i < n; i++)
        if (address_type(&addresses[i]) == q->question.type)
            write_address_record(&w, &addresses[i], ttl);
    if (q->has_edns)
        dns_write_opt(&w, rcode, error);
    return w.n;
}

size_t dns_build_answer(const struct dns_query *q, enum dns_rcode rcode,
                        const struct address *addresses, size_t n, uint32_t ttl, void *out,
                        size_t size)
{
    return build_answer(q, rcode, 0, addresses, n, ttl, (struct dns_writer){ out, 0 }, size);
}

size_t dns_build_blocked(const struct dns_query *q, void *out, size_t size)
{
    return build_answer(q, DNS_NXDOMAIN, DNS_BLOCKED, NULL, 0, 0, (struct dns_writer){ out, 0 },
                        size);
}

/* --- Reading --- */

enum { RECORDS_MAX = DNS_ADDRESSES_MAX }; /* of the answer section */

struct dns_record {
    struct dns_name owner;
    uint16_t type, class;
    uint32_t ttl;
    uint16_t length;
    size_t data; /* where it begins */
};

/* The records of the answer section; `in` is at the first. */
struct section {
    struct dns_reader in;
    unsigned n;
};

static bool read_dns_record(struct dns_reader *in, struct dns_record *ret)
{
    if (!dns_name_read(in->message, &in->at, true, &ret->owner) || !dns_read_u16(in, &ret->type) ||
        !dns_read_u16(in, &ret->class) || !dns_read_u32(in, &ret->ttl) ||
        !dns_read_u16(in, &ret->length))
        return false;
    ret->data = in->at;
    if (ret->ttl > INT32_MAX)
        ret->ttl = 0; /* RFC 2181 */
    return dns_skip(in, ret->length);
}

static bool is_alias(const struct dns_record *rec)
{
    return rec->class == DNS_IN && rec->type == DNS_CNAME;
}

static bool read_alias(struct str message, const struct dns_record *rec, struct dns_name *ret)
{
    size_t at = rec->data;

    return dns_name_read(message, &at, true, ret) && at == rec->data + rec->length;
}

static bool is_sound(struct str message, const struct dns_record *rec)
{
    struct dns_name target;

    if (is_alias(rec))
        return read_alias(message, rec, &target);
    if (rec->class == DNS_IN && (rec->type == DNS_A || rec->type == DNS_AAAA))
        return rec->length == data_length(rec->type);
    return true;
}

static int check_section(struct section s, struct err *e)
{
    struct dns_record rec;

    if (s.n > RECORDS_MAX)
        return err_set(e, ERR_TOO_BIG, "the DNS answer has more than %d records", RECORDS_MAX);
    for (unsigned i = 0; i < s.n; i++)
        if (!read_dns_record(&s.in, &rec) || !is_sound(s.in.message, &rec))
            return err_set(e, ERR_INVALID, "record %u of the DNS answer is malformed", i + 1);
    return 0;
}

static void lower_ttl(struct dns_answer *a, uint32_t ttl)
{
    if (ttl < a->ttl)
        a->ttl = ttl;
}

/* Moves `name` along its CNAME: 1, or 0 if it has none. The section was checked. */
static int follow_cname(struct section s, struct dns_name *name, struct dns_answer *ret,
                        struct err *e)
{
    struct dns_name target = { 0 };
    struct dns_record rec;
    int found = 0;

    for (unsigned i = 0; i < s.n; i++) {
        if (!read_dns_record(&s.in, &rec) || !is_alias(&rec) || !dns_name_same(&rec.owner, name))
            continue;
        if (found)
            return err_set(e, ERR_INVALID, "a name of the DNS answer has two CNAMEs");
        found = 1;
        read_alias(s.in.message, &rec, &target);
        lower_ttl(ret, rec.ttl);
    }
    if (found && target.odd)
        return err_set(e, ERR_INVALID, "a CNAME of the DNS answer is not a host name");
    if (found)
        *name = target;
    return found;
}

static int collect_addresses(struct section s, const struct dns_name *name, uint16_t type,
                             struct dns_answer *ret, struct err *e)
{
    struct dns_record rec;

    for (unsigned i = 0; i < s.n; i++) {
        struct address a = { .v6 = type == DNS_AAAA };

        if (!read_dns_record(&s.in, &rec) || rec.class != DNS_IN || rec.type != type ||
            !dns_name_same(&rec.owner, name))
            continue;
        if (ret->n == DNS_ADDRESSES_MAX)
            return err_set(e, ERR_TOO_BIG, "the DNS answer has more than %d addresses",
                           DNS_ADDRESSES_MAX);
        memcpy(a.bytes, s.in.message.p + rec.data, data_length(type));
        ret->addresses[ret->n++] = a;
        lower_ttl(ret, rec.ttl);
    }
    return 0;
}

static int resolve_section(struct section s, struct dns_name *name, uint16_t type,
                           struct dns_answer *ret, struct err *e)
{
    int r = check_section(s, e);

    if (r < 0)
        return r;
    while ((r = follow_cname(s, name, ret, e)) > 0)
        if (ret->hops++ == DNS_HOPS_MAX)
            return err_set(e, ERR_TOO_BIG, "the DNS answer has more than %d CNAMEs in a row",
                           DNS_HOPS_MAX);
    if (r == 0 && ret->rcode == DNS_NOERROR && (type == DNS_A || type == DNS_AAAA))
        r = collect_addresses(s, name, type, ret, e);
    return r;
}

/* --- Names without addresses --- */

/* The last field of an SOA record, if it is one. */
static bool read_minimum(struct str message, const struct dns_record *rec, uint32_t *ret)
{
    enum { NAMES_BEFORE = 2, NUMBERS_BEFORE = 4 * 4 };
    struct dns_reader in = { message, rec->data };
    struct dns_name name;

    for (int i = 0; i < NAMES_BEFORE; i++)
        if (!dns_name_read(message, &in.at, true, &name))
            return false;
    return dns_skip(&in, NUMBERS_BEFORE) && dns_read_u32(&in, ret) &&
           in.at == rec->data + rec->length;
}

/* Whether it is of the zone's name, or one below. */
static bool is_below_zone(const struct dns_name *name, const struct dns_name *zone)
{
    size_t before = name->n - zone->n;

    return !name->odd && !zone->odd && name->n >= zone->n &&
           memcmp(name->text + before, zone->text, zone->n) == 0 &&
           (before == 0 || zone->n == 0 || name->text[before - 1] == '.');
}

/* The time for which `name` has no records, according to the SOA record of its zone. It is only a
 * hint, so a malformed record counts as absent. `s` was checked and is followed by the
 * authorities. */
static uint32_t time_of_nothing(struct section s, unsigned authorities, const struct dns_name *name)
{
    struct dns_record rec;
    uint32_t minimum;

    for (unsigned i = 0; i < s.n; i++)
        read_dns_record(&s.in, &rec);
    for (unsigned i = 0; i < authorities && i < RECORDS_MAX; i++) {
        if (!read_dns_record(&s.in, &rec))
            return 0;
        if (rec.class == DNS_IN && rec.type == DNS_SOA && is_below_zone(name, &rec.owner) &&
            read_minimum(s.in.message, &rec, &minimum))
            return minimum < rec.ttl ? minimum : rec.ttl;
    }
    return 0;
}

/* --- The whole --- */

/* Whether the head and the question say that this answers what was asked. */
static bool is_answer(struct dns_reader *in, const struct dns_question *asked, uint16_t id,
                      struct dns_head *h, struct dns_name *ret)
{
    uint16_t type, class;

    return dns_read_head(in, h) && h->id == id && h->flags & DNS_IS_ANSWER &&
           !(h->flags & DNS_OPCODE) && h->questions == 1 &&
           dns_name_read(in->message, &in->at, false, ret) && dns_read_u16(in, &type) &&
           dns_read_u16(in, &class) && !ret->odd && strcmp(ret->text, asked->name) == 0 &&
           type == asked->type && class == asked->class;
}

int dns_parse_answer(struct str message, const struct dns_question *asked, uint16_t id,
                     struct dns_answer *ret, struct err *e)
{
    struct section s = { .in = { message, 0 } };
    struct dns_answer a = { .ttl = UINT32_MAX };
    struct dns_name name;
    struct dns_head h;
    int r = 0;

    if (!is_answer(&s.in, asked, id, &h, &name))
        return err_set(e, ERR_CONFLICT, "the DNS message does not answer the question");
    a.rcode = (enum dns_rcode)(h.flags & DNS_RCODE);
    a.truncated = h.flags & DNS_TRUNCATED;
    s.n = h.answers;
    if (!a.truncated)
        r = resolve_section(s, &name, asked->type, &a, e);
    if (r < 0)
        return r;
    if (a.n == 0)
        a.ttl = 0;
    if (a.n == 0 && !a.truncated && (a.rcode == DNS_NOERROR || a.rcode == DNS_NXDOMAIN))
        a.ttl = time_of_nothing(s, h.authorities, &name);
    *ret = a;
    return 0;
}
