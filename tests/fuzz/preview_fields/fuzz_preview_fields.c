/* SPDX-License-Identifier: Apache-2.0 */
/* Cookies of any shape: none reaches a sandbox under a name of another's, and none leaves one for a
 * whole domain. The first byte chooses the kind of preview. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "edge/core/preview_fields.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARK "sbxc-0123456789abcdef-"

static const struct preview previews[] = {
    { .kind = PREVIEW_BY_PATH, .mark = STR(MARK), .path = STR("/x/sbx_1/") },
    { .kind = PREVIEW_BY_NAME, .mark = STR(MARK), .host = STR("a.example") },
    { .kind = PREVIEW_BY_NAME, .host = STR("a.example") },
    { .kind = PREVIEW_BY_HEADER },
};

static void must(bool good)
{
    if (!good)
        abort();
}

static struct str trim_both(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct str){ s.p + 1, s.n - 1 };
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* As a browser reads the attributes of a cookie. */
static void check_set_cookie(const struct preview *p, struct str value)
{
    struct str part, name, rest = str_cut(value, ';', &part);

    must(part.n > 0);
    must(!p->mark.n || str_starts(part, p->mark));
    must(p->mark.n || part.n < 5 || strncasecmp(part.p, PREVIEW_COOKIE, 5) != 0);
    while (rest.n) {
        rest = str_cut(rest, ';', &part);
        (void)str_cut(part, '=', &name);
        name = trim_both(name);
        must(name.n != 6 || strncasecmp(name.p, "domain", 6) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out AUTO(buf_done) = BUF_INIT(1 << 20);
    const struct preview *p;
    struct str value;
    struct h1_field f = { .name = STR("Cookie") };

    if (size < 1)
        return 0;
    p = &previews[data[0] % COUNT_OF(previews)];
    value = (struct str){ (const char *)data + 1, size - 1 };
    f.value = value;
    if (preview_request_field(p, &f, &out))
        must(out.n > 0 && out.n <= 2 * value.n); /* each ";" becomes "; " */
    if (preview_set_cookie(p, value, &out))
        check_set_cookie(p, buf_str(&out));
    return 0;
}
