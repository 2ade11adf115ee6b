/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile servers: what is taken keeps the limits and is of the family that was asked for. */
#include <stdlib.h>

#include "lib/dns/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check(struct str message, uint16_t type)
{
    struct dns_question asked = { "api.example.com", type, DNS_IN };
    struct dns_answer a;

    if (dns_parse_answer(message, &asked, 0x1234, &a, NULL) < 0)
        return;
    must(a.n <= DNS_ADDRESSES_MAX && a.hops <= DNS_HOPS_MAX && a.ttl <= INT32_MAX);
    must(a.n == 0 || (a.rcode == DNS_NOERROR && !a.truncated));
    must(a.ttl == 0 || (!a.truncated && (a.rcode == DNS_NOERROR || a.rcode == DNS_NXDOMAIN)));
    for (size_t i = 0; i < a.n; i++)
        must(a.addresses[i].v6 == (type == DNS_AAAA));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str message = { (const char *)data, size };

    check(message, DNS_A);
    check(message, DNS_AAAA);
    return 0;
}
