/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/mask_words.h"

#include "base/own.h"

enum { NAME_MAX_BYTES = 64, MIXED_MIN = 20, HEX_DIGEST = 40, SCHEME_MAX = 12, UUID_SIZE = 36 };

/* --- names --- */

static const struct str name_parts[] = {
    STR("password"),      STR("passwd"),  STR("passphrase"),    STR("secret"),
    STR("token"),         STR("apikey"),  STR("accesskey"),     STR("privatekey"),
    STR("credential"),    STR("authkey"), STR("authorization"), STR("sessionkey"),
    STR("encryptionkey"),
};
static const struct str whole_names[] = { STR("auth"), STR("pass"), STR("cookie"),
                                          STR("setcookie") };
/* Names of what only describes a secret. */
static const struct str harmless_ends[] = {
    STR("file"), STR("path"),   STR("dir"),       STR("name"), STR("id"),
    STR("type"), STR("length"), STR("size"),      STR("ttl"),  STR("stdin"),
    STR("url"),  STR("tokens"), STR("tokenizer"),
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower_case(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

/* Letters and digits alone, in lower case: the last ones, if there are more than fit. */
static struct str normal_name(struct str name, char room[static NAME_MAX_BYTES])
{
    size_t n = NAME_MAX_BYTES;

    for (size_t i = name.n; i > 0 && n > 0; i--)
        if (is_letter(name.p[i - 1]) || is_digit(name.p[i - 1]))
            room[--n] = lower_case(name.p[i - 1]);
    return (struct str){ room + n, NAME_MAX_BYTES - n };
}

static bool has_part(struct str name, struct str part)
{
    for (size_t i = 0; i + part.n <= name.n; i++)
        if (memcmp(name.p + i, part.p, part.n) == 0)
            return true;
    return false;
}

bool mask_is_secret_name(struct str name)
{
    char room[NAME_MAX_BYTES];
    struct str s = normal_name(name, room);

    for (size_t i = 0; i < COUNT_OF(harmless_ends); i++)
        if (str_ends(s, harmless_ends[i]))
            return false;
    for (size_t i = 0; i < COUNT_OF(whole_names); i++)
        if (str_eq(s, whole_names[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(name_parts); i++)
        if (has_part(s, name_parts[i]))
            return true;
    return false;
}

static const struct str schemes[] = { STR("bearer"), STR("basic"),  STR("token"),
                                      STR("digest"), STR("apikey"), STR("negotiate") };

bool mask_is_scheme(struct str word)
{
    char room[NAME_MAX_BYTES];
    struct str s;

    if (word.n > SCHEME_MAX)
        return false;
    s = normal_name(word, room);
    for (size_t i = 0; i < COUNT_OF(schemes); i++)
        if (str_eq(s, schemes[i]))
            return s.n == word.n;
    return false;
}

/* --- words --- */

/* Beginnings of secrets, with the number of characters that follow at least. */
static const struct {
    struct str prefix;
    size_t least;
} prefixes[] = {
    { STR("github_pat_"), 20 }, { STR("glpat-"), 16 },  { STR("sk_live_"), 8 },
    { STR("sk_test_"), 8 },     { STR("rk_live_"), 8 }, { STR("sk-"), 16 },
    { STR("ghp_"), 16 },        { STR("gho_"), 16 },    { STR("ghu_"), 16 },
    { STR("ghs_"), 16 },        { STR("ghr_"), 16 },    { STR("AKIA"), 12 },
    { STR("ASIA"), 12 },        { STR("xoxb-"), 8 },    { STR("xoxp-"), 8 },
    { STR("xoxa-"), 8 },        { STR("xoxr-"), 8 },    { STR("xoxs-"), 8 },
    { STR("xapp-"), 8 },        { STR("eyJ"), 16 },     { STR("AIza"), 24 },
    { STR("npm_"), 20 },        { STR("pypi-"), 20 },   { STR("hf_"), 20 },
    { STR("sbt_"), 16 },        { STR("e2b_"), 16 },    { STR("dop_v1_"), 20 },
    { STR("shpat_"), 16 },
};

/* Beginnings of names that are no secrets, ours and those of digests. */
static const struct str plain_prefixes[] = {
    STR("sbx_"), STR("snp_"), STR("img_"), STR("lay_"), STR("tok_"), STR("peer_"),
    STR("apr_"), STR("aud_"), STR("cmd_"), STR("run_"), STR("ctx_"), STR("key_"),
};

static bool is_uuid(struct str s)
{
    if (s.n != UUID_SIZE)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if ((s.p[i] == '-') != dash)
            return false;
    }
    return true;
}

static int kind_of_digit(char c)
{
    return is_digit(c) ? 1 : c >= 'a' && c <= 'z' ? 2 : c >= 'A' && c <= 'Z' ? 3 : 0;
}

/* Whether letters and digits change as often as in random text. Words that people write change
 * seldom, at their parts. 40 hexadecimal digits are a commit. */
static bool is_mixed(struct str s)
{
    size_t changes = 0, chars = 0, digits = 0, hex = 0;
    int last = 0;

    for (size_t i = 0; i < s.n; i++) {
        int kind = kind_of_digit(s.p[i]);

        if (!kind)
            continue;
        changes += last && kind != last;
        digits += kind == 1;
        hex += kind == 1 || (s.p[i] >= 'a' && s.p[i] <= 'f');
        chars++;
        last = kind;
    }
    return chars >= MIXED_MIN && digits && changes * 4 >= chars &&
           !(hex == s.n && s.n == HEX_DIGEST);
}

size_t mask_secret_word(struct str word)
{
    for (size_t i = 0; i < COUNT_OF(prefixes); i++)
        if (str_starts(word, prefixes[i].prefix) &&
            word.n >= prefixes[i].prefix.n + prefixes[i].least)
            return prefixes[i].prefix.n;
    for (size_t i = 0; i < COUNT_OF(plain_prefixes); i++)
        if (str_starts(word, plain_prefixes[i]))
            return SIZE_MAX;
    return !is_uuid(word) && is_mixed(word) ? 0 : SIZE_MAX;
}

/* --- options of programs --- */

static const struct mask_option options[] = {
    { "curl", "-u", .glued = true, .next = true, .behind = true },
    { "curl", "-U", .glued = true, .next = true, .behind = true },
    { "curl", "--user", .next = true, .behind = true },
    { "curl", "--proxy-user", .next = true, .behind = true },
    { "mysql", "-p", .glued = true },
    { "mysqldump", "-p", .glued = true },
    { "mysqladmin", "-p", .glued = true },
    { "mariadb", "-p", .glued = true },
    { "mariadb-dump", "-p", .glued = true },
    { "redis-cli", "-a", .next = true },
    { "sshpass", "-p", .glued = true, .next = true },
    { "unzip", "-P", .next = true },
    { "zip", "-P", .next = true },
    { "7z", "-p", .glued = true },
};

struct str mask_last_part(struct str path)
{
    size_t from = path.n;

    while (from > 0 && path.p[from - 1] != '/')
        from--;
    return (struct str){ path.p + from, path.n - from };
}

bool mask_is_program(struct str word)
{
    struct str name = mask_last_part(word);

    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (str_eq(name, str_from(options[i].program)))
            return true;
    return false;
}

const struct mask_option *mask_find_option(struct str program, struct str word)
{
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        const struct mask_option *o = &options[i];
        struct str name = str_from(o->option);

        if (str_eq(mask_last_part(program), str_from(o->program)) &&
            ((o->next && str_eq(word, name)) ||
             (o->glued && word.n > name.n && str_starts(word, name))))
            return o;
    }
    return NULL;
}
