/* SPDX-License-Identifier: Apache-2.0 */
/* An egress ceiling as a worker reads it: invalid, or written and read back the same; it never has
 * an address that its list does not have, unless its reach has it. Behind a NUL byte comes a place
 * as the configuration has them. */
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/egress_ceiling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_place(struct str text)
{
    struct egress_place p;

    if (egress_place_parse(text, 443, &p))
        return;
    must(p.port_count <= EGRESS_PORTS_MAX);
    must(p.is_prefix || p.host.n);
    for (size_t i = 0; i < p.port_count; i++)
        must(p.ports[i] && !port_control_plane(p.ports[i]));
}

static void check_loopback(const struct egress_ceiling *c)
{
    const struct address loopback = { .bytes = { 127, 0, 0, 1 } };
    bool listed = false;

    for (size_t i = 0; i < c->places.n; i++)
        listed |= c->list[i].is_prefix && prefix_has(&c->list[i].prefix, &loopback);
    must(!egress_ceiling_has_address(c, &loopback, 80, false) || listed ||
         c->reach == EGRESS_REACH_LOCAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(16 << 20);
    AUTO(buf_done)
    struct buf once = BUF_INIT(EGRESS_CEILING_BYTES_MAX),
               twice = BUF_INIT(EGRESS_CEILING_BYTES_MAX);
    struct egress_ceiling c, again;
    struct str json, place;
    char text[EGRESS_CEILING_TEXT];
    struct err e = { 0 };

    place = str_cut((struct str){ (const char *)data, size }, 0, &json);
    if (place.p)
        check_place(place);
    if (egress_ceiling_read(json, &a, &c, &e) < 0) {
        must(e.msg[0]);
        return 0;
    }
    if (egress_ceiling_write(&c, &once, NULL) < 0)
        return 0; /* escapes made it longer than it may be */
    must(egress_ceiling_read(buf_str(&once), &a, &again, &e) >= 0);
    must(egress_ceiling_write(&again, &twice, NULL) >= 0);
    must(str_eq(buf_str(&once), buf_str(&twice)));
    check_loopback(&c);
    (void)egress_ceiling_has_name(&c, STR("api.example.com"), 443);
    must(*egress_ceiling_why(&c, "api.example.com", NULL, 443, false, text));
    return 0;
}
