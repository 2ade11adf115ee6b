/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/coding.h"

#include "lib/http/h1.h"

enum { WHOLE = 1000, UNSAID = -1 };

/* "0.5" in thousandths; 0 for an invalid weight. */
static int coding_weight(struct str text)
{
    struct str whole, rest = str_cut(text, '.', &whole);
    int n, unit = WHOLE / 10;

    if (whole.n != 1 || (whole.p[0] != '0' && whole.p[0] != '1') || rest.n > 3)
        return 0;
    n = whole.p[0] == '1' ? WHOLE : 0;
    for (size_t i = 0; i < rest.n; i++, unit /= 10) {
        if (rest.p[i] < '0' || rest.p[i] > '9')
            return 0;
        n += unit * (rest.p[i] - '0');
    }
    return n <= WHOLE ? n : 0;
}

static int weight_of(struct str parameters)
{
    struct str one, name, value;

    while (parameters.p) {
        parameters = str_cut(parameters, ';', &one);
        value = str_cut(str_trim(one), '=', &name);
        if (h1_same(name, STR("q")))
            return coding_weight(value);
    }
    return WHOLE;
}

enum http_coding http_coding(struct str accept)
{
    int gzip = UNSAID, plain = UNSAID, best = UNSAID, others = UNSAID;
    struct str one, name;

    while (accept.p) {
        int q;

        accept = str_cut(accept, ',', &one);
        q = weight_of(str_cut(one, ';', &name));
        name = str_trim(name);
        if (h1_same(name, STR("gzip")) || h1_same(name, STR("x-gzip")))
            gzip = q;
        else if (h1_same(name, STR("identity")))
            plain = q;
        else if (str_eq(name, STR("*")))
            others = q;
        else if (name.n && q > best)
            best = q; /* of those that we do not know */
    }
    if (gzip > 0 && gzip > plain && gzip > best)
        return HTTP_GZIP;
    if (plain == UNSAID)
        plain = others == 0 ? 0 : WHOLE;
    if (plain > 0)
        return HTTP_AS_IT_IS;
    return gzip > 0 || (gzip == UNSAID && others > 0) ? HTTP_GZIP : HTTP_NO_CODING;
}
