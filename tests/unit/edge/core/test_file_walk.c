/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_walk.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/control.h"

static void put_record(struct buf *b, struct str name, const char *attributes)
{
    struct control_entry v = { .mode = 0100644,
                               .name_len = (uint16_t)name.n,
                               .attributes_len =
                                   (uint32_t)(attributes[0] ? strlen(attributes) + 1 : 0) };

    CHECK_INT(buf_add(b, (struct str){ (const char *)&v, sizeof v }), 0);
    CHECK_INT(buf_add(b, name), 0);
    CHECK_INT(buf_add(b, (struct str){ attributes, v.attributes_len }), 0);
}

TEST(records_are_sorted_by_the_bytes_of_their_names)
{
    static const char *const given[] = { "b", "a.b", "\xc3\xa9", "a",  "ab",
                                         "B", "a-b", ".z",       "10", "9" },
                             *const sorted[] = { ".z",  "10",  "9",  "B", "a",
                                                 "a-b", "a.b", "ab", "b", "\xc3\xa9" };
    AUTO(buf_done) struct buf in = BUF_INIT(4096);
    AUTO(arena_done) struct arena a = ARENA_INIT(4096);
    struct str rest;

    for (size_t i = 0; i < COUNT_OF(given); i++)
        put_record(&in, str_from(given[i]), i % 2 ? "user.x=y" : "");
    CHECK(file_walk_sort(buf_str(&in), &a, &rest));
    CHECK_INT(rest.n, in.n);
    for (size_t i = 0; i < COUNT_OF(sorted); i++) {
        struct backend_entry v;
        ssize_t n = backend_entry_read(rest, &v);

        CHECK(n > 0);
        CHECK_STR(v.name, sorted[i]);
        rest = (struct str){ rest.p + n, rest.n - (size_t)n };
    }
    CHECK_INT(rest.n, 0);
}

TEST(no_records_and_malformed_ones)
{
    AUTO(buf_done) struct buf in = BUF_INIT(4096);
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10), none = ARENA_INIT(1);
    struct str rest = STR("untouched");

    CHECK(file_walk_sort(STR(""), &a, &rest));
    CHECK_INT(rest.n, 0);
    put_record(&in, STR("a"), "");
    CHECK(!file_walk_sort((struct str){ in.p, in.n - 1 }, &a, &rest));
    CHECK(!file_walk_sort(buf_str(&in), &none, &rest)); /* no room */
}
