/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/metadata.h"
#include "base/own.h"
#include "harness/tap.h"

static const struct {
    const char *key, *label;
} names[] = {
    { "app", "app" },       { "a.b_c-1", "a.b_c-1" }, { "userId", "e2b/user/49d" },
    { "a b", "e2b/a/20b" }, { "a/b", "e2b/a/2fb" },   { "ü", "e2b//c3/bc" },
};

TEST(names_become_labels_and_come_back)
{
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
        struct buf text AUTO(buf_done) = BUF_INIT(4096);
        const struct json_pair one = { names[i].key, "v" };
        struct json_map labels;
        struct json_writer w;
        char wanted[128];
        struct err e;

        CHECK_OK(metadata_to_labels(&(struct json_map){ &one, 1 }, &a, &labels, &e), e);
        CHECK_STR(str_from(labels.p[0].key), names[i].label);
        json_writer_init(&w, &text, JSON_COMPACT);
        metadata_write(&w, &labels);
        CHECK_OK(json_writer_finish(&w, &e), e);
        snprintf(wanted, sizeof wanted, "{\"%s\":\"v\"}", names[i].key);
        CHECK_STR(buf_str(&text), wanted);
    }
}

TEST(labels_of_others_are_shown_as_they_are)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    const struct json_pair some[] = { { "team/ab12", "x" },
                                      { "e2b/zz/q", "y" },
                                      { "e2b//ff", "z" } };
    const struct json_map labels = { some, 3 };
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &text, JSON_COMPACT);
    metadata_write(&w, &labels);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&text), "{\"team/ab12\":\"x\",\"zz/q\":\"y\",\"e2b//ff\":\"z\"}");
}

TEST(filters_are_encoded_twice)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
    struct json_map got;
    struct err e;

    CHECK_OK(metadata_filter(STR("userId=a%2520b%2526&app=x"), &a, &got, &e), e);
    CHECK_INT(got.n, 2);
    CHECK_STR(str_from(got.p[0].key), "e2b/user/49d");
    CHECK_STR(str_from(got.p[0].value), "a b&");
    CHECK_STR(str_from(got.p[1].key), "app");
    CHECK_STR(str_from(got.p[1].value), "x");
    CHECK_OK(metadata_filter(STR(""), &a, &got, &e), e);
    CHECK_INT(got.n, 0);
}

TEST(what_labels_cannot_have_is_refused)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    struct json_map got;
    struct err e;
    char many[33 * 8] = "";

    CHECK(metadata_filter(STR("a=%252"), &a, &got, &e) < 0);
    CHECK(metadata_filter(STR("a=%250a"), &a, &got, &e) < 0);
    CHECK(metadata_filter(STR("=x"), &a, &got, &e) < 0);
    CHECK(metadata_filter(STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=x"), &a, &got, &e) < 0);
    for (int i = 0; i < 33; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "a%d=x&", i);
    CHECK(metadata_filter(str_from(many), &a, &got, &e) < 0);
}
