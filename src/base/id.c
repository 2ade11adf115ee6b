/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stdint.h>
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

bool id_valid(const char *prefix, struct str s)
{
    struct str p = str_from(prefix);

    if (!str_starts(s, p) || s.n != p.n + ID_RANDOM_CHARS)
        return false;
    for (size_t i = p.n; i < s.n; i++)
        if (!s.p[i] || !strchr(alphabet, s.p[i]))
            return false;
    return true;
}
