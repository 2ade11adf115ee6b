/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/openapi.h"

#include "domain/profile/profile.h"
#include "edge/rest/routes.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static const struct json *document(void)
{
    static struct arena a = ARENA_INIT(32 << 20);
    static struct buf text = BUF_INIT(4 << 20);
    const struct json_limits limits = { .bytes = 4 << 20, .depth = 32 };
    const struct json *v;
    struct err e;

    if (openapi_write(&text, &e) < 0 || json_read(buf_str(&text), limits, &a, &v, &e) < 0)
        FAIL("%s", e.msg);
    return v;
}

static const struct json *at(const struct json *v, const char *key)
{
    const struct json *m = json_get(v, str_from(key));

    if (!m)
        FAIL("there is no %s", key);
    return m;
}

TEST(every_route_is_described)
{
    const struct json *paths = at(document(), "paths");
    size_t rows = 0, described = 0;

    for (size_t t = 0; rest_dialect.tables[t]; t++)
        for (const struct route *r = rest_dialect.tables[t]; r->path; r++, rows++)
            at(paths, r->path);
    for (const struct json *p = json_first(paths); p != json_end(paths); p++)
        described += p->list.n;
    CHECK_INT(described, rows);
}

static void check_references(const struct json *v, const struct json *schemas)
{
    static const char prefix[] = "#/components/schemas/";
    const struct json *r = json_get(v, STR("$ref"));

    if (r && r->type == JSON_STR) {
        CHECK(str_starts(r->s, str_from(prefix)));
        at(schemas, r->s.p + strlen(prefix));
    }
    for (const struct json *m = json_first(v); m != json_end(v); m++)
        check_references(m, schemas);
}

TEST(every_reference_leads_somewhere)
{
    const struct json *v = document();

    check_references(v, at(at(v, "components"), "schemas"));
}

TEST(answers_are_described_by_their_tables)
{
    const struct json *schemas = at(at(document(), "components"), "schemas");
    const struct json *file = at(schemas, "File"), *p = at(file, "properties");
    const struct json *list = at(at(at(schemas, "FileList"), "properties"), "entries");

    CHECK_STR(at(at(p, "size"), "type")->s, "integer");
    CHECK_STR(at(at(p, "name"), "type")->s, "string");
    CHECK_STR(at(at(p, "mtime"), "format")->s, "date-time");
    CHECK_INT(at(at(p, "kind"), "enum")->list.n, 4);
    CHECK_STR(at(list, "type")->s, "array");
    CHECK_STR(at(at(list, "items"), "$ref")->s, "#/components/schemas/File");
    CHECK_INT(at(file, "required")->list.n, 6);
}

/* The answer has a row for each field of a profile's file. */
TEST(a_profile_is_shown_whole)
{
    const struct json *schemas = at(at(document(), "components"), "schemas");
    const struct json *shown = at(at(schemas, "Profile"), "properties");

    for (size_t i = 0; i < profile_field_count; i++)
        at(shown, profile_fields[i].name);
}
