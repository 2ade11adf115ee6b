/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "lib/dns/resolver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_server servers[DNS_SERVERS_MAX];
    size_t n = resolv_conf_parse((struct str){ (const char *)data, size }, servers);

    if (n > DNS_SERVERS_MAX)
        abort();
    for (size_t i = 0; i < n; i++)
        if (servers[i].port != DNS_PORT)
            abort();
    return 0;
}
