/* SPDX-License-Identifier: Apache-2.0 */
/* Every query has an answer or is not to be answered, the answer fits, and we read from it what was
 * asked and what we put in. */
#include <stdlib.h>

#include "base/own.h"
#include "lib/dns/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static const struct address both[] = {
    { .bytes = { 192, 0, 2, 1 } },
    { .v6 = true, .bytes = { 0x20, 1, 0x0d, 0xb8, [15] = 1 } },
};

static void check_answer(const struct dns_query *q)
{
    uint8_t out[DNS_UDP_MIN], query[DNS_QUERY_MAX];
    size_t n = dns_build_answer(q, DNS_NOERROR, both, COUNT_OF(both), 7, out, sizeof out);
    bool wanted = q->question.type == DNS_A || q->question.type == DNS_AAAA;
    struct dns_query again;
    struct dns_answer a;
    enum dns_rcode refuse;

    must(n > 0 && n <= sizeof out);
    must(dns_parse_answer((struct str){ (char *)out, n }, &q->question, q->id, &a, NULL) == 0);
    must(a.n == wanted && !a.truncated && (!wanted || a.ttl == 7));
    if (wanted)
        must(address_equal(&a.addresses[0], &both[q->question.type == DNS_AAAA]));
    n = dns_build_query(q->id, str_from(q->question.name), q->question.type, q->has_edns, query);
    must((n == 0) == (q->question.name[0] == '\0'));
    if (n == 0)
        return;
    dns_mix_case(query, n, q->wire_);
    must(dns_parse_query((struct str){ (char *)query, n }, &again, &refuse, NULL) == 0);
    must(strcmp(again.question.name, q->question.name) == 0 && again.id == q->id);
    must(again.has_edns == q->has_edns);
    must(dns_same_case((struct str){ (char *)query, n }, query, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_query q;
    enum dns_rcode refuse = DNS_NOERROR;
    uint8_t out[DNS_UDP_MIN];

    if (dns_parse_query((struct str){ (const char *)data, size }, &q, &refuse, NULL) == 0)
        check_answer(&q);
    else if (refuse != DNS_NOERROR)
        must(dns_build_answer(&q, refuse, both, COUNT_OF(both), 7, out, sizeof out) >= 12);
    return 0;
}
