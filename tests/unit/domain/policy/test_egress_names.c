/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_names.h"

#include "base/own.h"
#include "harness/tap.h"
#include "domain/policy/egress_sources.h"
#include "unit/domain/policy/policies.h"

#define STRS(...)                                                                                  \
    ((struct json_strs){ (const char *const[]){ __VA_ARGS__ },                                     \
                         sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *) })

static const struct egress_endpoint *place(struct json_strs allowed, struct json_strs names,
                                           size_t *ret_n)
{
    struct egress_policy p, placed;
    const struct egress_entry *entry;
    struct err e;

    CHECK_OK(egress_from_allow(allowed, policies_arena(), &p, &e), e);
    CHECK_OK(egress_place_names(&p, names, policies_arena(), &placed, &e), e);
    entry = placed.network_policies.p;
    *ret_n = entry->endpoints.n;
    return entry->endpoints.p;
}

/* "10.0.0.5" if there is one address, "" without addresses. */
static struct str address_of(const struct egress_endpoint *ep)
{
    CHECK(ep->allowed_ips.n <= 1);
    return str_from(ep->allowed_ips.n ? ep->allowed_ips.p[0] : "");
}

TEST(an_endpoint_is_where_the_first_item_places_its_name)
{
    struct json_strs names =
        STRS("mirror.corp:443,80=10.0.0.5", "mirror.corp=10.0.0.6", "*.lab.example=10.2.0.0/16");
    size_t n;
    const struct egress_endpoint *eps = place(STRS("mirror.corp", "a.lab.example", "*.lab.example",
                                                   "other.corp", "mirror.corp:25=10.9.9.9"),
                                              names, &n);

    CHECK_INT(n, 5);
    CHECK_STR(address_of(&eps[0]), "10.0.0.5");
    CHECK_STR(address_of(&eps[1]), "10.2.0.0/16");
    CHECK_STR(address_of(&eps[2]), "10.2.0.0/16");
    CHECK_STR(address_of(&eps[3]), "");
    CHECK_STR(address_of(&eps[4]), "10.9.9.9");
    eps = place(STRS("**.lab.example"), names, &n);
    CHECK_STR(address_of(&eps[0]), ""); /* it has names that no item has */
}

TEST(ports_at_different_places_become_endpoints_of_their_own)
{
    size_t n;
    const struct egress_endpoint *eps =
        place(STRS("mirror.corp:80,443,8080,8443", "next.corp"),
              STRS("mirror.corp:443,8443=10.0.0.5", "mirror.corp:8080=10.0.0.6"), &n);

    CHECK_INT(n, 4);
    CHECK_INT(eps[0].port_count, 1);
    CHECK_INT(eps[0].ports[0], 80);
    CHECK_STR(address_of(&eps[0]), "");
    CHECK_STR(str_from(eps[1].host), "next.corp"); /* numbers of endpoints stay */
    CHECK_INT(eps[2].port_count, 2);
    CHECK_INT(eps[2].ports[1], 8443);
    CHECK_STR(address_of(&eps[2]), "10.0.0.5");
    CHECK_INT(eps[3].ports[0], 8080);
    CHECK_STR(address_of(&eps[3]), "10.0.0.6");
}

TEST(a_placed_name_is_reached_there_and_without_a_lookup)
{
    struct egress_policy p, placed;
    struct egress_connect_query ask = ask_for("mirror.corp:443", NULL);
    struct egress_match m;
    struct egress_reason why;
    struct address at[2];
    struct err e;

    CHECK_OK(egress_from_allow(STRS("mirror.corp"), policies_arena(), &p, &e), e);
    CHECK_OK(egress_place_names(&p, STRS("mirror.corp=10.0.0.5"), policies_arena(), &placed, &e),
             e);
    CHECK_INT(egress_connect(snapshot_of(&placed), &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_INT(egress_match_addresses(&m, at, 2), 1);
    CHECK_INT(egress_addresses(&m, at, 1, &why), EGRESS_ALLOWED);
    CHECK_INT(egress_connect(snapshot_of(&p), &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_INT(egress_match_addresses(&m, at + 1, 1), 0);
    CHECK_INT(egress_addresses(&m, at, 1, &why), EGRESS_DENIED);
}

TEST(an_endpoint_that_would_disagree_with_a_placed_one_is_an_error)
{
    struct egress_policy p, placed;
    struct err e;

    CHECK_OK(
        egress_from_allow(STRS("mirror.corp.example", "*.corp.example"), policies_arena(), &p, &e),
        e);
    CHECK_INT(
        egress_place_names(&p, STRS("mirror.corp.example=10.0.0.5"), policies_arena(), &placed, &e),
        -ERR_INVALID);
    CHECK(strstr(e.msg, "allowed_ips"));
}

TEST(items_that_are_none)
{
    static const char *const items[] = {
        "",
        "mirror.corp",
        "=10.0.0.5",
        "mirror.corp=",
        "mirror.corp:443",
        "10.0.0.5=10.0.0.6",
        "10.0.0.5:443",
        "localhost:80",
        "mirror.corp:0=10.0.0.5",
        "mirror.corp:6443=10.0.0.5",
        "mirror.corp=8.8.8.8",
        "mirror.corp=10.0.0.5,8.8.8.8",
        "mirror.corp=8.0.0.0/5",
        "mirror.corp=127.0.0.0/8",
        "mirror.corp=169.254.169.254",
        "metadata.google.internal=10.0.0.5",
        "mirror_corp/x=10.0.0.5",
    };
    const struct egress_endpoint *ep;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(items); i++)
        CHECK_INT(egress_known_read(items[i], policies_arena(), &ep, &e), -ERR_INVALID);
    CHECK_OK(egress_known_read("mirror.corp=127.0.0.1,[fd00::5]", policies_arena(), &ep, &e), e);
    CHECK_INT(ep->allowed_ips.n, 2);
    CHECK_INT(ep->ports[0], 443);
}
