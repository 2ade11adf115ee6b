/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/tar.h"

#include "harness/tap.h"
#include "lib/tar/path.h"

static int64_t number(const char *bytes, size_t n)
{
    int64_t v = -999;

    return tar_number((struct str){ bytes, n }, &v, NULL) < 0 ? -1000 : v;
}

TEST(octal_numbers)
{
    CHECK_INT(number("0000644\0", 8), 0644);
    CHECK_INT(number("   644 \0", 8), 0644);
    CHECK_INT(number("77777777777", 12), 077777777777LL);
    CHECK_INT(number("777777777777", 12), 0777777777777LL); /* no room for an end */
    CHECK_INT(number("\0\0\0\0\0\0\0\0", 8), 0);
    CHECK_INT(number("        ", 8), 0);
    CHECK_INT(number("-1\0\0\0\0\0\0", 8), -1000);
    CHECK_INT(number("12x", 8), -1000);
    CHECK_INT(number("8\0\0\0\0\0\0\0", 8), -1000);
}

TEST(base_256_numbers)
{
    CHECK_INT(number("\x80\0\0\0\0\0\0\x01", 8), 1);
    CHECK_INT(number("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12), 0x7fffffffffffffffLL);
    CHECK_INT(number("\x80\0\0\0\x80\0\0\0\0\0\0\0", 12), -1000);
    CHECK_INT(number("\x80\x01\0\0\0\0\0\0\0\0\0\0", 12), -1000);
    CHECK_INT(number("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 12), -2);
    CHECK_INT(number("\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", 12), INT64_MIN);
    CHECK_INT(number("\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0", 12), -1000);
}

TEST(pax_records)
{
    struct str rest = STR("8 a=b c\n13 path=x=y\n\n5 k=\n"), key, value;

    CHECK_INT(tar_pax_next(&rest, &key, &value, NULL), 1);
    CHECK_STR(key, "a");
    CHECK_STR(value, "b c");
    CHECK_INT(tar_pax_next(&rest, &key, &value, NULL), 1);
    CHECK_STR(value, "x=y\n"); /* a value may hold anything */
    CHECK_INT(tar_pax_next(&rest, &key, &value, NULL), 1);
    CHECK_STR(value, "");
    CHECK_INT(tar_pax_next(&rest, &key, &value, NULL), 0);
}

TEST(bad_pax_records)
{
    static const char *const bad[] = {
        "a=b\n",      "0 a=b\n", "5 a=b\n", "7 a=b\n",  "6 a=b ", "-6 a=b\n",
        "6 abc\n",    "4 =\n",   "2 \n",    "3 a\n",    " ",      "18446744073709551616 a=b\n",
        "06  a=b\n ", "6",       "\n",      "6 =abc\n", "1 ",     "18446744073709551615 a=b\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct str rest = str_from(bad[i]), key, value;

        if (tar_pax_next(&rest, &key, &value, NULL) != -ERR_INVALID)
            FAIL("accepted '%s'", bad[i]);
    }
}

TEST(pax_times)
{
    struct timespec t = { .tv_sec = 7 };

    CHECK(tar_pax_time(STR("12.5"), &t));
    CHECK_INT(t.tv_sec, 12);
    CHECK_INT(t.tv_nsec, 500000000);
    CHECK(tar_pax_time(STR("-1.25"), &t));
    CHECK_INT(t.tv_sec, -2);
    CHECK_INT(t.tv_nsec, 750000000);
    CHECK(tar_pax_time(STR("3.123456789999"), &t));
    CHECK_INT(t.tv_nsec, 123456789);
    CHECK(tar_pax_time(STR("4."), &t));
    CHECK(!tar_pax_time(STR("x"), &t) && !tar_pax_time(STR("1.x"), &t) &&
          !tar_pax_time(STR(".5"), &t) && !tar_pax_time(STR("1 "), &t) &&
          !tar_pax_time(STR("-9223372036854775808.5"), &t));
    CHECK_INT(t.tv_sec, 4);
}

TEST(the_largest_header_fits)
{
    static struct tar_entry entry = { .type = TAR_SYMLINK,
                                      .uid = UINT32_MAX - 1,
                                      .gid = UINT32_MAX - 1,
                                      .size = INT64_MAX,
                                      .mtime = { .tv_sec = INT64_MIN } };
    static char out[TAR_HEAD_MAX];
    size_t n;

    memset(entry.path, 'p', sizeof entry.path - 1);
    memset(entry.link, 'l', sizeof entry.link - 1);
    n = tar_encode(&entry, out);
    CHECK(n <= sizeof out && n % TAR_BLOCK == 0);
}

TEST(record_lengths_count_themselves)
{
    static struct tar_entry entry = { .type = TAR_FILE };
    static char out[TAR_HEAD_MAX];

    for (size_t n = 101; n < sizeof entry.path; n++) {
        struct str rest = { out + TAR_BLOCK, 0 }, key, value;
        struct tar_header h;

        memset(entry.path, 'p', n);
        CHECK(tar_encode(&entry, out) > TAR_BLOCK);
        CHECK_INT(tar_header_parse(out, &h, NULL), 0);
        rest.n = (size_t)h.size;
        CHECK_INT(tar_pax_next(&rest, &key, &value, NULL), 1);
        CHECK_INT(value.n, n);
        CHECK_INT(rest.n, 0);
    }
}

TEST(paths_take_one_form)
{
    struct tree_path p;
    char parent[TREE_PATH_MAX];

    CHECK_INT(tree_path(STR("//./usr//lib/./x/"), &p, NULL), 0);
    CHECK_STR(str_from(p.text), "usr/lib/x");
    CHECK_STR(str_from(tree_path_name(&p)), "x");
    CHECK_INT(p.depth, 3);
    tree_path_parent(&p, parent);
    CHECK_STR(str_from(parent), "usr/lib");
    CHECK_INT(tree_path(STR("..a/b.."), &p, NULL), 0);
    CHECK_INT(tree_path(STR("./"), &p, NULL), 0);
    CHECK_INT(p.n, 0);
    tree_path_parent(&p, parent);
    CHECK_STR(str_from(parent), ".");
}

TEST(paths_that_are_refused)
{
    static char deep[2 * TREE_DEPTH_MAX + 3], name[TREE_NAME_MAX + 2], wide[TREE_PATH_MAX + 1];
    struct tree_path p;

    CHECK_INT(tree_path(STR(""), &p, NULL), -ERR_INVALID);
    CHECK_INT(tree_path(STR("a\0b"), &p, NULL), -ERR_INVALID);
    CHECK_INT(tree_path(STR("a/../b"), &p, NULL), -ERR_DENIED);
    CHECK_INT(tree_path(STR(".."), &p, NULL), -ERR_DENIED);
    for (size_t i = 0; i + 1 < sizeof deep; i++)
        deep[i] = i % 2 ? '/' : 'd';
    CHECK_INT(tree_path(str_from(deep), &p, NULL), -ERR_TOO_BIG);
    memset(name, 'n', sizeof name - 1);
    CHECK_INT(tree_path(str_from(name), &p, NULL), -ERR_TOO_BIG);
    for (size_t i = 0; i + 1 < sizeof wide; i++)
        wide[i] = i % 200 ? 'w' : '/';
    CHECK_INT(tree_path(str_from(wide), &p, NULL), 0); /* 4095 after the first slash is dropped */
    wide[0] = 'w';
    CHECK_INT(tree_path(str_from(wide), &p, NULL), -ERR_TOO_BIG);
}
