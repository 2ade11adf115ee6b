#include <stdlib.h>

#include "base/own.h"
#include "packages/packages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever a file holds, what comes out are hosts with ports, in their one spelling, each once. */
static void check(const struct packages *p)
{
    struct host host;
    uint16_t port;

    if (p->n > PACKAGES_HOSTS_MAX)
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
    static packages_fn *const readers[] = {
        packages_read_apt,     packages_read_deb822,  packages_read_list,    packages_read_pip,
        packages_read_uv,      packages_read_npm,     packages_read_cargo,   packages_read_go,
        packages_read_gem,     packages_built_in_pip, packages_built_in_npm, packages_built_in_go,
        packages_built_in_gem,
    };
    struct str text = { (const char *)data, size };
    struct packages p = { .n = 0 };

    if (size > PACKAGES_FILE_MAX)
        return 0;
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        readers[i](&p, text);
    check(&p);
    return 0;
}
