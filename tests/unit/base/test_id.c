/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(made_ids_are_valid_and_differ)
{
    char a[ID_MAX], b[ID_MAX];
    struct err e;

    for (int i = 0; i < 1000; i++) {
        CHECK_OK(id_make("sbx_", a, &e), e);
        CHECK_OK(id_make("sbx_", b, &e), e);
        CHECK_INT(strlen(a), 4 + ID_RANDOM_CHARS);
        CHECK(id_valid("sbx_", str_from(a)));
        CHECK(strcmp(a, b) != 0);
    }
}

TEST(every_letter_comes_up)
{
    bool seen[256] = { false };
    char id[ID_MAX];
    int letters = 0;

    for (int i = 0; i < 200; i++) {
        CHECK_INT(id_make("", id, NULL), 0);
        for (const char *p = id; *p; p++)
            seen[(unsigned char)*p] = true;
    }
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        letters += seen[i];
    CHECK_INT(letters, 32);
    CHECK(!seen['i'] && !seen['l'] && !seen['o'] && !seen['u']);
}

TEST(a_prefix_that_does_not_fit)
{
    char id[ID_MAX] = "untouched";
    struct err e;

    CHECK_OK(id_make("elevenchar_", id, &e), e);
    CHECK_INT(strlen(id), ID_MAX - 1);
    memcpy(id, "untouched", 10);
    CHECK_INT(id_make("twelve_chars", id, &e), -ERR_BUG);
    CHECK_STR(str_from(id), "untouched");
}

TEST(not_ids)
{
    static const char *const bad[] = {
        "",
        "sbx_",
        "sbx_0123456789abcdefghj",   /* 19 */
        "sbx_0123456789abcdefghjkm", /* 21 */
        "img_0123456789abcdefghjk",  /* another type */
        "sbx_0123456789abcdefghjK",  /* upper case */
        "sbx_0123456789abcdefghji",  /* not in the alphabet */
        "sbx_0123456789abcdefgh/.",  /* a path */
        "sbx-0123456789abcdefghjk",
    };
    char nul[24] = "sbx_0123456789abcdefghjk";

    CHECK(id_valid("sbx_", (struct str){ nul, sizeof nul }));
    nul[23] = '\0';
    CHECK(!id_valid("sbx_", (struct str){ nul, sizeof nul }));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (id_valid("sbx_", str_from(bad[i])))
            FAIL("accepted '%s'", bad[i]);
}

TEST(an_id_is_read_in_any_of_its_forms)
{
    static const char *const good[] = {
        "sbx_0123456789abcdefghjk",
        "sbx0123456789abcdefghjk",
        "sbx-0123456789abcdefghjk",
    };
    static const char *const bad[] = {
        "",
        "s",
        "sbx",
        "sbx_",
        "sbx0123456789abcdefghj",     /* 19 */
        "sbx0123456789abcdefghjkm",   /* 21 */
        "sbx.0123456789abcdefghjk",   /* another sign */
        "sbx__0123456789abcdefghjk",  /* two of them */
        "sbx-_0123456789abcdefghj",   /* instead of a character */
        "sbx0123456789abcdefghjK",    /* upper case */
        "SBX0123456789abcdefghjk",    /* likewise */
        "img0123456789abcdefghjk",    /* another type */
        "0123456789abcdefghjk",       /* none */
        "sbx0123456789abcdefghjk-me", /* with a suffix */
    };
    char id[ID_MAX] = "untouched", plain[ID_MAX];

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (id_read("sbx_", str_from(bad[i]), id))
            FAIL("accepted '%s'", bad[i]);
    CHECK(!id_read("sbx_", (struct str){ NULL, 0 }, id));
    CHECK_STR(str_from(id), "untouched");
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        memset(id, 'x', sizeof id);
        CHECK(id_read("sbx_", str_from(good[i]), id));
        CHECK_STR(str_from(id), good[0]);
    }
    id_show_plain(id, plain);
    CHECK_STR(str_from(plain), good[1]);
    CHECK(id_read("sbx_", str_from(plain), plain)); /* also onto itself */
    CHECK_STR(str_from(plain), good[0]);
}

TEST(a_suffix_is_cut_behind_a_complete_id_alone)
{
    static const struct {
        const char *text, *left;
    } all[] = {
        { "sbx_0123456789abcdefghjk-client", "sbx_0123456789abcdefghjk" },
        { "sbx0123456789abcdefghjk-client", "sbx0123456789abcdefghjk" },
        { "sbx-0123456789abcdefghjk-client", "sbx-0123456789abcdefghjk" },
        { "sbx0123456789abcdefghjk-a-b", "sbx0123456789abcdefghjk" },
        { "sbx0123456789abcdefghjk-", "sbx0123456789abcdefghjk-" },
        { "sbx0123456789abcdefghjk", "sbx0123456789abcdefghjk" },
        { "sbx0123456789abcdefghj-client", "sbx0123456789abcdefghj-client" },
        { "sbx0123456789abcdefghjkm-client", "sbx0123456789abcdefghjkm-client" },
        { "web-client", "web-client" },
        { "", "" },
    };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        CHECK_STR(id_cut_suffix("sbx_", str_from(all[i].text)), all[i].left);
    CHECK_INT(id_cut_suffix("sbx_", (struct str){ NULL, 0 }).n, 0);
}
