/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gate/gate.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "lib/gate/bpf.h"
#include "lib/gate/program.h"

/* --- places --- */

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

struct gate_place gate_place_of(const struct address *a, uint16_t port)
{
    struct gate_place p = { .port = { (uint8_t)(port >> 8), (uint8_t)(port & 0xff) } };

    if (a->v6) {
        memcpy(p.address, a->bytes, sizeof p.address);
    } else {
        memcpy(p.address, mapped, sizeof mapped);
        memcpy(p.address + sizeof mapped, a->bytes, 4);
    }
    return p;
}

int gate_place_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct gate_place));
}

int gate_places_check(const struct gate_place *list, size_t n, struct err *e)
{
    if (n > GATE_PLACES_MAX)
        return err_set(e, ERR_TOO_BIG, "an egress worker can have at most %d granted addresses",
                       GATE_PLACES_MAX);
    for (size_t i = 0; i < n; i++) {
        struct address a = { .v6 = memcmp(list[i].address, mapped, sizeof mapped) != 0 };
        uint16_t port = (uint16_t)(list[i].port[0] << 8 | list[i].port[1]);
        char text[ADDRESS_TEXT_MAX];

        if (i && gate_place_compare(&list[i - 1], &list[i]) >= 0)
            return err_set(e, ERR_INVALID, "granted addresses are not in ascending order");
        if (a.v6)
            memcpy(a.bytes, list[i].address, sizeof a.bytes);
        else
            memcpy(a.bytes, list[i].address + sizeof mapped, 4);
        address_text(&a, text);
        if (!address_grantable(&a))
            return err_set(e, ERR_DENIED, "%s cannot be granted to an egress worker: %s", text,
                           address_reason(&a));
        if (port_control_plane(port))
            return err_set(e, ERR_DENIED,
                           "port %u of %s cannot be granted to an egress worker: cluster control "
                           "planes use it",
                           (unsigned)port, text);
    }
    return 0;
}

/* --- programs --- */

static const struct {
    enum bpf_attach_type where;
    bool v6;
} hooks[GATE_PROGRAMS] = {
    { BPF_CGROUP_INET4_CONNECT, false },
    { BPF_CGROUP_INET6_CONNECT, true },
    { BPF_CGROUP_UDP4_SENDMSG, false },
    { BPF_CGROUP_UDP6_SENDMSG, true },
};

static int make_maps(struct gate *g, struct err *e)
{
    int r = bpf_hash_make("gate_places", sizeof(struct gate_key), GATE_ENTRIES_MAX, &g->places, e);

    return r < 0 ? r : bpf_hash_make("gate_own", 16, GATE_OWN_MAX, &g->own, e);
}

static int load_programs(struct gate *g, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(hooks) && r >= 0; i++) {
        struct gate_text text;

        gate_text_make(hooks[i].v6, g->places, g->own, &text);
        if (text.n == GATE_TEXT_MAX)
            return err_set(e, ERR_BUG, "the text of the BPF program does not fit");
        r = bpf_load(text.p, text.n, hooks[i].where, &g->programs[i], e);
    }
    return r;
}

int gate_attach_(const struct gate *g, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(hooks) && r >= 0; i++)
        r = bpf_attach(g->programs[i], g->dir, hooks[i].where, e);
    return r;
}

static void close_fds(struct gate *g)
{
    drop_fd(&g->top);
    drop_fd(&g->dir);
    drop_fd(&g->lock);
    drop_fd(&g->places);
    drop_fd(&g->own);
    drop_fd(&g->news);
    for (size_t i = 0; i < COUNT_OF(g->programs); i++)
        drop_fd(&g->programs[i]);
}

int gate_probe(struct err *e)
{
    struct gate g = GATE_CLOSED;
    int r = make_maps(&g, e);

    if (r >= 0)
        r = load_programs(&g, e);
    close_fds(&g);
    return r;
}

/* --- opening, closing --- */

int gate_open(struct gate *g, int top, const char *tag, struct err *e)
{
    int r;

    *g = GATE_CLOSED;
    if (top < 0)
        return err_set(e, ERR_UNSUPPORTED, "there is no cgroup v2 hierarchy that can be written");
    snprintf(g->prefix, sizeof g->prefix, "sandboxer-%s-egress.", tag);
    gate_sweep_(top, g->prefix);
    r = make_maps(g, e);
    if (r >= 0)
        r = gate_own_open_(g, e);
    g->top = fcntl(top, F_DUPFD_CLOEXEC, 3);
    if (r >= 0 && g->top < 0)
        r = err_sys(e, "opening the cgroup hierarchy");
    if (r >= 0)
        r = load_programs(g, e);
    if (r >= 0)
        r = gate_make_dir_(g, e); /* whether it can be made, and the programs attached */
    g->open = true;
    if (r < 0)
        gate_close(g);
    else
        (void)gate_tidy(g);
    return r;
}

void gate_close(struct gate *g)
{
    if (!g->open)
        return;
    drop_fd(&g->lock);
    if (g->dir >= 0)
        gate_sweep_(g->top, g->name);
    for (size_t i = 0; i < g->n; i++)
        free(g->groups[i].list);
    free(g->groups);
    free(g->own_list);
    close_fds(g);
    *g = GATE_CLOSED;
}
