/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/multipart.h"

#include <stdio.h>
#include <strings.h>

static bool starts_ignoring_case(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);

    return s.n >= n && strncasecmp(s.p, prefix, n) == 0;
}

static bool is_boundary_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=?", c));
}

int multipart_init(struct multipart *m, struct str content_type, struct err *e)
{
    struct str type, rest = str_cut(content_type, ';', &type), part, boundary = { NULL, 0 };

    *m = (struct multipart){ .state = MULTIPART_PREAMBLE };
    while (rest.p) {
        rest = str_cut(rest, ';', &part);
        part = str_trim(part);
        if (starts_ignoring_case(part, "boundary=") && !boundary.p)
            boundary = (struct str){ part.p + 9, part.n - 9 };
    }
    if (boundary.n >= 2 && boundary.p[0] == '"' && boundary.p[boundary.n - 1] == '"')
        boundary = (struct str){ boundary.p + 1, boundary.n - 2 };
    for (size_t i = 0; i < boundary.n; i++)
        if (!is_boundary_char(boundary.p[i]))
            boundary.n = 0;
    if (!boundary.n || boundary.n > MULTIPART_BOUNDARY_MAX)
        return err_set(e, ERR_INVALID, "Content-Type: multipart/form-data needs a valid boundary");
    m->delimiter_n =
        (size_t)snprintf(m->delimiter, sizeof m->delimiter, "\r\n--" STR_FMT, STR_ARG(boundary));
    return 0;
}

/* The offset of the delimiter, or of its possible start at the end of the input; in.n if there is
 * none. */
static size_t find_delimiter(const struct multipart *m, struct str in, bool *ret_whole)
{
    *ret_whole = false;
    for (size_t i = 0; i < in.n; i++) {
        const char *p = memchr(in.p + i, '\r', in.n - i);
        size_t left;

        if (!p)
            return in.n;
        i = (size_t)(p - in.p);
        left = in.n - i < m->delimiter_n ? in.n - i : m->delimiter_n;
        if (memcmp(p, m->delimiter, left) == 0) {
            *ret_whole = left == m->delimiter_n;
            return i;
        }
    }
    return in.n;
}

/* After a delimiter: CRLF begins a part, two dashes end the body. 0: more input is needed. */
static ssize_t read_after_delimiter(struct multipart *m, struct str in, struct err *e)
{
    if (in.n < 2)
        return 0;
    if (in.p[0] == '\r' && in.p[1] == '\n')
        m->state = MULTIPART_HEAD;
    else if (in.p[0] == '-' && in.p[1] == '-')
        m->state = MULTIPART_OVER;
    else
        return err_set(e, ERR_INVALID, "multipart: unexpected bytes after a boundary");
    return 2;
}

/* The next parameter of `; name="value"; other=word`: 1, 0 at the end, -1 if malformed. Quoted
 * values have no escapes: percent-encoding by clients is kept. */
static int next_disposition_parameter(struct str *rest, struct str *name, struct str *value)
{
    struct str in = str_trim(*rest);
    const char *close;

    if (!in.n)
        return 0;
    if (in.p[0] != ';')
        return -1;
    in = str_trim((struct str){ in.p + 1, in.n - 1 });
    in = str_cut(in, '=', name);
    if (!in.n)
        return -1;
    if (in.p[0] != '"') {
        *value = (struct str){ in.p, str_find(in, ';') };
        *rest = (struct str){ in.p + value->n, in.n - value->n };
        return 1;
    }
    close = memchr(in.p + 1, '"', in.n - 1);
    if (!close)
        return -1;
    *value = (struct str){ in.p + 1, (size_t)(close - in.p) - 1 };
    *rest = (struct str){ close + 1, in.n - value->n - 2 };
    return 1;
}

static int read_disposition(struct multipart *m, struct str rest, struct err *e)
{
    bool has_name = false, fits = true;
    struct str name, value;
    int r;

    while ((r = next_disposition_parameter(&rest, &name, &value)) > 0) {
        if (str_eq(name, STR("name"))) {
            fits &= !has_name && str_copy(value, m->name, sizeof m->name);
            has_name = true;
        } else if (str_eq(name, STR("filename"))) {
            fits &= !m->has_filename && str_copy(value, m->filename, sizeof m->filename);
            m->has_filename = true;
        }
    }
    if (r < 0 || !fits || !has_name)
        return err_set(e, ERR_INVALID, "multipart: a part has an invalid name or file name");
    return 0;
}

static int read_part_field(struct multipart *m, struct str line, bool *seen, struct err *e)
{
    static const char field[] = "Content-Disposition:", kind[] = "form-data";
    struct str value;

    if (!starts_ignoring_case(line, field))
        return 0;
    value = str_trim((struct str){ line.p + sizeof field - 1, line.n - sizeof field + 1 });
    if (*seen || !starts_ignoring_case(value, kind))
        return err_set(e, ERR_INVALID,
                       "multipart: the Content-Disposition of a part is not form-data");
    *seen = true;
    return read_disposition(m, (struct str){ value.p + sizeof kind - 1, value.n - sizeof kind + 1 },
                            e);
}

static ssize_t read_part_head(struct multipart *m, struct str in, struct multipart_event *ret,
                              struct err *e)
{
    size_t at = 0;
    bool seen = false;

    m->name[0] = m->filename[0] = '\0';
    m->has_filename = false;
    for (;;) {
        struct str left = { in.p + at, in.n - at };
        const char *end = left.n ? memmem(left.p, left.n, "\r\n", 2) : NULL;
        ssize_t n = end ? end - left.p : -1;
        int r;

        if (n < 0 && in.n > MULTIPART_HEAD_MAX)
            return err_set(e, ERR_INVALID,
                           "multipart: the fields of a part are longer than %d bytes",
                           MULTIPART_HEAD_MAX);
        if (n < 0)
            return 0;
        at += (size_t)n + 2;
        if (n == 0)
            break;
        r = read_part_field(m, (struct str){ left.p, (size_t)n }, &seen, e);
        if (r < 0)
            return r;
    }
    if (!seen)
        return err_set(e, ERR_INVALID, "multipart: a part has no Content-Disposition");
    m->state = MULTIPART_BODY;
    ret->kind = MULTIPART_PART;
    return (ssize_t)at;
}

/* The body begins with the first boundary, without a line break before it. */
static ssize_t read_preamble(struct multipart *m, struct str in, struct err *e)
{
    size_t n = m->delimiter_n - 2;
    ssize_t more;

    if (memcmp(in.p, m->delimiter + 2, in.n < n ? in.n : n) != 0)
        return err_set(e, ERR_INVALID, "multipart: the body does not begin with its boundary");
    if (in.n < n)
        return 0;
    more = read_after_delimiter(m, (struct str){ in.p + n, in.n - n }, e);
    return more <= 0 ? more : (ssize_t)n + more;
}

static ssize_t read_part_body(struct multipart *m, struct str in, struct multipart_event *ret,
                              struct err *e)
{
    bool whole;
    size_t at = find_delimiter(m, in, &whole);
    ssize_t more;

    if (at > 0) {
        *ret = (struct multipart_event){ MULTIPART_DATA, { in.p, at } };
        return (ssize_t)at;
    }
    if (!whole)
        return 0;
    more = read_after_delimiter(m, (struct str){ in.p + m->delimiter_n, in.n - m->delimiter_n }, e);
    if (more <= 0)
        return more;
    ret->kind = MULTIPART_PART_END;
    return (ssize_t)m->delimiter_n + more;
}

ssize_t multipart_next(struct multipart *m, struct str in, struct multipart_event *ret,
                       struct err *e)
{
    ssize_t n;

    *ret = (struct multipart_event){ .kind = MULTIPART_MORE };
    if (m->state == MULTIPART_OVER) {
        ret->kind = MULTIPART_END;
        return (ssize_t)in.n;
    }
    if (!in.n)
        return 0;
    if (m->state == MULTIPART_PREAMBLE) {
        n = read_preamble(m, in, e);
        if (n > 0 && m->state == MULTIPART_OVER)
            ret->kind = MULTIPART_END;
        return n;
    }
    return m->state == MULTIPART_HEAD ? read_part_head(m, in, ret, e)
                                      : read_part_body(m, in, ret, e);
}
