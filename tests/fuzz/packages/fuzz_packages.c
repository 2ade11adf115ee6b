/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/own.h"
#include "domain/package_hosts/package_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever a file holds, what comes out are hosts with ports, in their one spelling, each once. */
static void check(const struct package_hosts *p)
{
    struct host host;
    uint16_t port;

    if (p->n > PACKAGE_HOSTS_HOSTS_MAX)
        abort();
    for (size_t i = 0; i < p->n; i++) {
        if (authority_parse(str_from(p->hosts[i]), 0, &host, &port, NULL) < 0)
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->hosts[i], p->hosts[k]) == 0)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static package_hosts_fn *const readers[] = {
        package_hosts_read_apt,     package_hosts_read_deb822,  package_hosts_read_list,
        package_hosts_read_pip,     package_hosts_read_uv,      package_hosts_read_npm,
        package_hosts_read_cargo,   package_hosts_read_go,      package_hosts_read_gem,
        package_hosts_built_in_pip, package_hosts_built_in_npm, package_hosts_built_in_go,
        package_hosts_built_in_gem,
    };
    struct str text = { (const char *)data, size };
    struct package_hosts p = { .n = 0 };

    if (size > PACKAGE_HOSTS_FILE_MAX)
        return 0;
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        readers[i](&p, text);
    check(&p);
    return 0;
}
