/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of this machine's interfaces, in a map of the gate. */
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "lib/gate/bpf.h"
#include "lib/gate/gate.h"

static int compare_own(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static size_t read_own(uint8_t (*ret)[16])
{
    struct ifaddrs *all = NULL;
    size_t n = 0;

    if (getifaddrs(&all) < 0)
        return 0;
    for (const struct ifaddrs *i = all; i && n < GATE_OWN_MAX; i = i->ifa_next) {
        struct address a;

        if (i->ifa_addr && address_from_sockaddr(i->ifa_addr, &a, NULL)) {
            const struct gate_place p = gate_place_of(&a, 0);

            memcpy(ret[n++], p.address, sizeof p.address);
        }
    }
    freeifaddrs(all);
    qsort(ret, n, sizeof *ret, compare_own);
    return n;
}

/* On a read error the list stays unchanged: a stale address stays denied, and none is lost. */
static void update_own(struct gate *g)
{
    uint8_t(*list)[16] = new0_array(GATE_OWN_MAX, sizeof *list);
    size_t n = read_own(list);

    if (!n) {
        free(list);
        return;
    }
    for (size_t i = 0; i < n; i++)
        (void)bpf_key_add(g->own, list[i], NULL);
    for (size_t i = 0; i < g->own_n; i++)
        if (!bsearch(g->own_list[i], list, n, sizeof *list, compare_own))
            bpf_key_remove(g->own, g->own_list[i]);
    free(g->own_list);
    g->own_list = list;
    g->own_n = n;
}

int gate_own_open_(struct gate *g, struct err *e)
{
    struct sockaddr_nl at = { .nl_family = AF_NETLINK,
                              .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };

    g->news = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (g->news < 0 || bind(g->news, (const struct sockaddr *)&at, sizeof at) < 0)
        return err_sys(e, "following the machine's addresses");
    update_own(g);
    return 0;
}

/* The contents of the messages do not matter, nor do lost ones: all addresses are read again. */
void gate_refresh(struct gate *g)
{
    char byte;

    if (!g->open)
        return;
    while (recv(g->news, &byte, sizeof byte, MSG_TRUNC) >= 0 || errno == ENOBUFS)
        ;
    update_own(g);
}
