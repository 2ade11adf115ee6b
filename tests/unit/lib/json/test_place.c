/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/place.h"

#include "harness/tap.h"

static const struct json_place document;

TEST(paths_name_members_and_items)
{
    struct json_place ports = json_place_member(&document, STR("ports"));
    struct json_place second = json_place_item(&ports, 1);
    struct json_place number = json_place_member(&second, STR("number"));
    struct json v = { .type = JSON_NULL, .line = 7 };
    struct err e;

    CHECK_INT(json_place_fail(&number, &v, &e, "is %s", "odd"), -ERR_INVALID);
    CHECK_STR(str_from(e.msg), "line 7: ports[1].number: is odd");
    v.line = 0;
    json_place_fail(&document, &v, &e, "is odd");
    CHECK_STR(str_from(e.msg), "is odd");
}

TEST(names_cannot_act_on_a_terminal)
{
    struct json_place odd = json_place_member(&document, STR("\x1b[31m"));
    struct json v = { .type = JSON_STR, .s = STR("\a") };
    struct err e;

    json_place_expected(&odd, &v, "a number", &e);
    CHECK_STR(str_from(e.msg), "\\x1b[31m: expected a number, not the string '\\x07'");
}

TEST(long_paths_are_cut)
{
    struct json_place levels[64] = { { 0 } };
    struct json v = { .type = JSON_NULL };
    struct err e;

    for (size_t i = 1; i < 64; i++)
        levels[i] = json_place_member(&levels[i - 1], STR("a_name_of_some_length"));
    json_place_fail(&levels[63], &v, &e, "is odd");
    CHECK(strstr(e.msg, ": is odd"));
}

TEST(lists_of_words_are_cut)
{
    char words[24] = "";

    json_place_add_word(words, sizeof words, "read");
    json_place_add_word(words, sizeof words, "write");
    CHECK_STR(str_from(words), "read, write");
    json_place_add_word(words, sizeof words, "administer");
    json_place_add_word(words, sizeof words, "x");
    CHECK_STR(str_from(words), "read, write, …");
}
