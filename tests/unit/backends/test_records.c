/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/records.h"

#include "harness/tap.h"
#include "lib/ipc/control.h"

static size_t put_entry(char *out, const char *name, const char *target)
{
    struct control_entry v = { .size = 5,
                               .mode = 0100644,
                               .name_len = (uint16_t)strlen(name),
                               .link_len = (uint16_t)strlen(target) };

    memcpy(out, &v, sizeof v);
    memcpy(out + sizeof v, name, v.name_len);
    memcpy(out + sizeof v + v.name_len, target, v.link_len);
    return sizeof v + v.name_len + v.link_len;
}

TEST(an_entry_is_taken_when_all_of_it_is_there)
{
    struct backend_entry v;
    char bytes[256];
    size_t n = put_entry(bytes, "name", "target");

    for (size_t i = 0; i < n; i++)
        CHECK_INT(backend_entry_read((struct str){ bytes, i }, &v), 0);
    CHECK_INT(backend_entry_read((struct str){ bytes, sizeof bytes }, &v), n);
    CHECK_STR(v.name, "name");
    CHECK_STR(v.target, "target");
    CHECK_INT(v.size, 5);
}

TEST(the_mode_of_a_target_is_beside_its_link_s)
{
    struct control_entry v = { .mode = 0120777u | 0100644u << CONTROL_TARGET_MODE, .name_len = 1 };
    struct backend_entry entry;
    char bytes[64];

    memcpy(bytes, &v, sizeof v);
    bytes[sizeof v] = 'l';
    CHECK_INT(backend_entry_read((struct str){ bytes, sizeof v + 1 }, &entry), sizeof v + 1);
    CHECK_INT(entry.mode, 0120777);
    CHECK_INT(entry.target_mode, 0100644);
    v.mode = 0120777; /* of an older PID 1 */
    memcpy(bytes, &v, sizeof v);
    CHECK_INT(backend_entry_read((struct str){ bytes, sizeof v + 1 }, &entry), sizeof v + 1);
    CHECK_INT(entry.mode, 0120777);
    CHECK_INT(entry.target_mode, 0);
}

TEST(a_change_with_and_without_a_name)
{
    struct control_event v = { .mask = 2, .name_len = 3 };
    struct backend_change c;
    char bytes[64];

    memcpy(bytes, &v, sizeof v);
    memcpy(bytes + sizeof v, "abc", 3);
    CHECK_INT(backend_change_read((struct str){ bytes, sizeof v + 2 }, &c), 0);
    CHECK_INT(backend_change_read((struct str){ bytes, sizeof v + 3 }, &c), sizeof v + 3);
    CHECK_STR(c.name, "abc");
    CHECK_INT(c.mask, 2);
    v.name_len = UINT32_MAX;
    memcpy(bytes, &v, sizeof v);
    CHECK(backend_change_read((struct str){ bytes, sizeof bytes }, &c) < 0);
}

TEST(a_change_with_an_entry)
{
    struct control_event v = { .mask = 2, .name_len = 3 };
    struct backend_change c;
    struct backend_entry entry;
    char bytes[256];
    size_t n = put_entry(bytes + sizeof v + 3, "abc", "/target"), all = sizeof v + 3 + n;

    v.entry_len = (uint32_t)n;
    memcpy(bytes, &v, sizeof v);
    memcpy(bytes + sizeof v, "abc", 3);
    for (size_t i = 0; i < all; i++)
        CHECK_INT(backend_change_read((struct str){ bytes, i }, &c), 0);
    CHECK_INT(backend_change_read((struct str){ bytes, sizeof bytes }, &c), all);
    CHECK_STR(c.name, "abc");
    CHECK_INT(backend_entry_read(c.entry, &entry), n);
    CHECK_STR(entry.target, "/target");
    v.entry_len = (uint32_t)n - 1; /* another length than the entry's own */
    memcpy(bytes, &v, sizeof v);
    CHECK(backend_change_read((struct str){ bytes, sizeof bytes }, &c) < 0);
    v.entry_len = UINT32_MAX;
    memcpy(bytes, &v, sizeof v);
    CHECK(backend_change_read((struct str){ bytes, sizeof bytes }, &c) < 0);
}
