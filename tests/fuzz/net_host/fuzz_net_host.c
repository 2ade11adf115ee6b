/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken has one form, which is taken for the same again; addresses are what the libc reads;
 * and nothing that a resolver could take for an address is a name. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/net/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_address(struct str s)
{
    char copy[128], text[ADDRESS_TEXT_MAX];
    uint8_t theirs[16] = { 0 };
    struct address a, again;
    bool ours = address_parse(s, &a);
    int family = s.n && memchr(s.p, ':', s.n) ? AF_INET6 : AF_INET;

    if (!str_copy(s, copy, sizeof copy)) {
        must(!ours);
        return;
    }
    must(ours == (inet_pton(family, copy, theirs) == 1));
    if (!ours)
        return;
    must(memcmp(a.bytes, theirs, sizeof theirs) == 0);
    must(address_parse(address_text(&a, text), &again) && address_equal(&a, &again));
    must(address_grantable(&a) == (address_classify(&a) != ADDRESS_METADATA));
}

static void check_prefix(struct str s)
{
    struct prefix p;

    if (prefix_parse(s, &p))
        must(p.bits <= (p.base.v6 ? 128u : 32u) && prefix_has(&p, &p.base));
}

static void check_name(const char *name)
{
    struct in_addr guessed;

    must(name[0] && strlen(name) <= HOST_MAX && !inet_aton(name, &guessed));
    for (const char *c = name; *c; c++)
        must((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || strchr("-_.", *c));
}

static void check_authority(struct str s)
{
    struct host h, again;
    uint16_t port, port_again;
    char text[300];

    if (authority_parse(s, 80, &h, &port, NULL) < 0)
        return;
    must(port > 0);
    if (!h.is_address)
        check_name(h.name);
    (void)snprintf(text, sizeof text, h.is_address && h.address.v6 ? "[%s]:%u" : "%s:%u", h.name,
                   port);
    must(authority_parse(str_from(text), 0, &again, &port_again, NULL) == 0);
    must(port == port_again && strcmp(h.name, again.name) == 0);
    must(h.is_address == again.is_address && host_is_metadata(&h) == host_is_metadata(&again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data, size };

    check_address(in);
    check_prefix(in);
    check_authority(in);
    return 0;
}
