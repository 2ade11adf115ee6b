/* SPDX-License-Identifier: Apache-2.0 */
/* Every text that we take jansson takes as the same value, and the other way round, with four
 * exceptions: we hold whole numbers up to UINT64_MAX and NULs in keys, go less deep, and see the
 * NUL byte behind a number, which jansson overlooks. */
#include "lib/json/reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"
#include "unit/lib/json/oracle.h"

enum { TEXT_MAX = 4096, ROUNDS = 30000 };

static const struct json_limits limits = { .bytes = TEXT_MAX, .depth = JSON_DEPTH_MAX };

static const struct str documents[] = {
    STR("null"),
    STR(" [ ] "),
    STR("{}"),
    STR("[true,false,null]"),
    STR("{\"a\":{\"b\":[1,2,{\"c\":\"d\"}]},\"e\":-0.5e-3}"),
    STR("[0,-0,1,-1,9223372036854775807,-9223372036854775808]"),
    STR("9223372036854775808"),
    STR("18446744073709551615"),
    STR("18446744073709551616"),
    STR("-9223372036854775809"),
    STR("[0.0,-0.0,1e5,1E+5,1e-5,123456789.123456789,1e308,1e-320,1e-400]"),
    STR("1e309"),
    STR("[1.,2]"),
    STR("[.5]"),
    STR("[01]"),
    STR("[+1]"),
    STR("[1e]"),
    STR("[0x10]"),
    STR("[NaN,Infinity]"),
    STR("\"\\u0000\""),
    STR("{\"a\\u0000b\":1}"),
    STR("\"\\ud83d\\ude00\\u00e9\\u20ac\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    STR("\"\\ud83d\""),
    STR("\"\\ude00\""),
    STR("\"\\ud83d\\ud83d\""),
    STR("\"\\x\""),
    STR("\"gr\xC3\xB6\xC3\x9F"
        "e \xE6\xBC\xA2 \xF0\x9F\x98\x80\""),
    STR("\"\xEF\xBF\xBE\xEF\xB7\x90\x7F\""),
    STR("\"\xC0\x80\""),
    STR("\"\xED\xA0\x80\""),
    STR("\"\xF4\x90\x80\x80\""),
    STR("\"\xFF\""),
    STR("\"a\tb\""),
    STR("\"a\0b\""),
    STR("{\"a\":1,\"a\":2}"),
    STR("{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,"
        "\"k\":11,\"l\":12,\"m\":13,\"n\":14,\"d\":15}"),
    STR("\xEF\xBB\xBF[]"),
    STR("[] []"),
    STR("[]\0"),
    STR("[1,]"),
    STR("{\"a\":1,}"),
    STR("[1 2]"),
    STR("{\"a\" 1}"),
    STR("{1:2}"),
    STR("['a']"),
    STR("[1]//"),
    STR("tru"),
    STR("truee"),
    STR("\"abc"),
    STR("["),
    STR(""),
};

static const struct str tokens[] = {
    STR("{"),       STR("}"),
    STR("["),       STR("]"),
    STR(","),       STR(":"),
    STR("\""),      STR("\\"),
    STR("\\u00"),   STR("\\ud83d"),
    STR("\n"),      STR("null"),
    STR("true"),    STR("\"a\":"),
    STR("\"b\":"),  STR("1"),
    STR("-"),       STR("."),
    STR("e9"),      STR("0"),
    STR("E-400"),   STR("\xC3\xA9"),
    STR("\xFF"),    STR("\0"),
    STR("\\u0000"), STR("99999999999999999999"),
};

static uint32_t dice(uint32_t sides)
{
    static uint64_t state = 42;

    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % sides);
}

static void dump(FILE *out, const struct json *v)
{
    switch (v->type) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        fprintf(out, DUMP_OPEN, v->type == JSON_OBJECT ? '{' : '[', v->list.n);
        for (const struct json *item = json_first(v); item != json_end(v); item++) {
            if (v->type == JSON_OBJECT)
                dump_str(out, item->key);
            dump(out, item);
        }
        break;
    case JSON_STR:
        dump_str(out, v->s);
        break;
    case JSON_DOUBLE:
        fprintf(out, DUMP_DOUBLE, v->d);
        break;
    case JSON_INT:
        fprintf(out, DUMP_INT, (long long)v->i);
        break;
    case JSON_BOOL:
        fprintf(out, DUMP_BOOL, v->b);
        break;
    default:
        fputs(DUMP_NULL, out);
        break;
    }
}

static bool holds_uint(const struct json *v)
{
    if (v->type == JSON_UINT)
        return true;
    for (const struct json *item = json_first(v); item != json_end(v); item++)
        if (holds_uint(item))
            return true;
    return false;
}

static bool holds_nul_key(const struct json *v)
{
    for (const struct json *item = json_first(v); item != json_end(v); item++)
        if ((item->key.n && memchr(item->key.p, '\0', item->key.n)) || holds_nul_key(item))
            return true;
    return false;
}

/* Whether both agree on the text we took, whose tree is v. */
static bool agree(const struct json *v, enum verdict verdict, const char *their_dump)
{
    AUTO_FREE char *our_dump = NULL;
    size_t n = 0;
    FILE *out;

    if (verdict == VERDICT_BIG_NUMBER)
        return holds_uint(v);
    if (verdict == VERDICT_NUL_KEY)
        return holds_nul_key(v);
    if (verdict == VERDICT_BAD)
        return false;
    out = open_memstream(&our_dump, &n);
    CHECK(out != NULL);
    dump(out, v);
    fclose(out);
    return str_eq(str_from(our_dump), str_from(their_dump));
}

/* True if the text was good. */
static bool compare(struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    AUTO_FREE char *their_dump = NULL;
    const struct json *v;
    struct err e = { 0 };
    size_t n = 0;
    FILE *out = open_memstream(&their_dump, &n);
    enum verdict verdict;
    int r;

    CHECK(out != NULL);
    verdict = oracle_read(text, out);
    fclose(out);
    r = json_read(text, limits, &a, &v, &e);
    if (r == -ERR_TOO_BIG || (r < 0 && text.n && memchr(text.p, '\0', text.n)))
        return false;
    if (r < 0 ? verdict == VERDICT_GOOD : !agree(v, verdict, their_dump))
        FAIL("verdict %d, ours %d (%s) on: " STR_FMT, (int)verdict, r, e.msg, STR_ARG(text));
    return r == 0;
}

TEST(interesting_documents)
{
    for (size_t i = 0; i < COUNT_OF(documents); i++)
        compare(documents[i]);
}

/* Replaces `cut` bytes at `at` by s, if there is room. */
static void splice(char *text, size_t *n, size_t at, size_t cut, struct str s)
{
    char copy[TEXT_MAX];

    if (*n - cut + s.n > TEXT_MAX)
        return;
    memcpy(copy, s.p, s.n);
    memmove(text + at + s.n, text + at + cut, *n - at - cut);
    memcpy(text + at, copy, s.n);
    *n = *n - cut + s.n;
}

static void mutate(char *text, size_t *n)
{
    size_t at = dice((uint32_t)*n + 1), left = *n - at;
    struct str other = documents[dice(COUNT_OF(documents))];
    char byte = (char)dice(256);

    switch (dice(5)) {
    case 0:
        splice(text, n, at, left ? 1 : 0, (struct str){ &byte, 1 });
        break;
    case 1:
        splice(text, n, at, left ? 1 + dice((uint32_t)(left < 8 ? left : 8)) : 0, STR(""));
        break;
    case 2:
        splice(text, n, at, 0, (struct str){ text + at, dice((uint32_t)left + 1) });
        break;
    case 3:
        splice(text, n, at, 0, other);
        break;
    default:
        splice(text, n, at, 0, tokens[dice(COUNT_OF(tokens))]);
        break;
    }
}

TEST(mutated_documents)
{
    char text[TEXT_MAX];
    int good = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct str from = documents[dice(COUNT_OF(documents))];
        size_t n = from.n;

        memcpy(text, from.p, n);
        for (uint32_t left = 1 + dice(3); left; left--)
            mutate(text, &n);
        good += compare((struct str){ text, n });
    }
    CHECK(good > ROUNDS / 20 && good < ROUNDS - ROUNDS / 20);
}

static void generate(FILE *out, int depth);

static void generate_string(FILE *out)
{
    static const char *const parts[] = {
        "a",       "key", "\\n",       "\\u00e9", "\xC3\xA9", "\\\"", "\\ud83d\\ude00",
        "\\u0000", " ",   "long text "
    };

    fputc('"', out);
    for (uint32_t left = dice(5); left; left--)
        fputs(parts[dice(COUNT_OF(parts))], out);
    fputc('"', out);
}

static void generate_number(FILE *out)
{
    switch (dice(4)) {
    case 0:
        fprintf(out, "%d", (int)dice(2000) - 1000);
        break;
    case 1:
        fprintf(out, "-%u%u%u", 1 + dice(1000000000), dice(1000000000), dice(100));
        break;
    case 2:
        fprintf(out, "%u.%ue%d", dice(1000), dice(1000000), (int)dice(700) - 350);
        break;
    default:
        fprintf(out, "%u%u.%u", 1 + dice(1000000000), dice(1000000000), dice(1000000000));
        break;
    }
}

static void generate_list(FILE *out, int depth, bool keyed)
{
    uint32_t n = dice(keyed ? 20 : 5);

    fputc(keyed ? '{' : '[', out);
    for (uint32_t i = 0; i < n; i++) {
        fputs(i ? " ,\n" : "", out);
        if (keyed && dice(8))
            fprintf(out, "\"key%u\" :", i);
        else if (keyed) {
            generate_string(out);
            fputc(':', out);
        }
        generate(out, depth - 1);
    }
    fputc(keyed ? '}' : ']', out);
}

static void generate(FILE *out, int depth)
{
    static const char *const words[] = { "null", "true", "false" };
    uint32_t what = dice(depth > 0 ? 6 : 4);

    if (what == 0)
        fputs(words[dice(COUNT_OF(words))], out);
    else if (what == 1)
        generate_string(out);
    else if (what < 4)
        generate_number(out);
    else
        generate_list(out, depth, what == 4);
}

TEST(generated_documents)
{
    int good = 0;

    for (int i = 0; i < ROUNDS / 3; i++) {
        AUTO_FREE char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);

        CHECK(out != NULL);
        generate(out, 4);
        fclose(out);
        good += compare((struct str){ text, n });
    }
    CHECK(good > ROUNDS / 6);
}
