/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

/* No i, l, o, u: ids are read aloud and typed. */
static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

int id_make(const char *prefix, char out[static ID_MAX], struct err *e)
{
    uint8_t random[ID_RANDOM_CHARS];
    size_t n = strlen(prefix);

    if (n + ID_RANDOM_CHARS >= ID_MAX)
        return err_set(e, ERR_BUG, "internal error: the id prefix '%s' has more than %d bytes",
                       prefix, ID_MAX - ID_RANDOM_CHARS - 1);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, "reading random bytes");
    memcpy(out, prefix, n);
    for (size_t i = 0; i < ID_RANDOM_CHARS; i++)
        out[n + i] = alphabet[random[i] & 31];
    out[n + ID_RANDOM_CHARS] = '\0';
    return 0;
}

static bool is_random_part(struct str s)
{
    if (s.n != ID_RANDOM_CHARS)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || !strchr(alphabet, s.p[i]))
            return false;
    return true;
}

bool id_valid(const char *prefix, struct str s)
{
    struct str p = str_from(prefix);

    return str_starts(s, p) && is_random_part((struct str){ s.p + p.n, s.n - p.n });
}

bool id_read(const char *prefix, struct str s, char ret[static ID_MAX])
{
    struct str kind = { prefix, strlen(prefix) - 1 }, rest;
    char text[ID_MAX] = { 0 };

    if (!str_starts(s, kind))
        return false;
    rest = (struct str){ s.p + kind.n, s.n - kind.n };
    if (rest.n > ID_RANDOM_CHARS && (rest.p[0] == '_' || rest.p[0] == '-'))
        rest = (struct str){ rest.p + 1, rest.n - 1 };
    if (!is_random_part(rest))
        return false;
    snprintf(text, sizeof text, "%s" STR_FMT, prefix, STR_ARG(rest));
    memcpy(ret, text, sizeof text);
    return true;
}

void id_show_plain(const char *id, char ret[static ID_MAX])
{
    const char *rest = strchr(id, '_');

    if (rest)
        snprintf(ret, ID_MAX, "%.*s%s", (int)(rest - id), id, rest + 1);
    else
        snprintf(ret, ID_MAX, "%s", id);
}

struct str id_cut_suffix(const char *prefix, struct str s)
{
    size_t most = strlen(prefix) + ID_RANDOM_CHARS;
    char id[ID_MAX];

    for (size_t n = most - 1; n <= most && n + 1 < s.n; n++)
        if (s.p[n] == '-' && id_read(prefix, (struct str){ s.p, n }, id))
            return (struct str){ s.p, n };
    return s;
}
