/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/annotate.h"

#include <string.h>

#include "base/own.h"
#include "domain/config/sources.h"
#include "lib/yaml/file.h"

enum { INDENT = 2, PATH_BYTES = 256, DEPTH_MAX = 8, TEXT_BYTES_MAX = 1 << 20 };

/* The path of the field that a line is about: its name below those of the lines around it. */
struct line_path {
    char text[PATH_BYTES];
    size_t ends[DEPTH_MAX]; /* of the names at each depth */
};

static size_t count_indent(struct str line)
{
    size_t n = 0;

    while (n < line.n && line.p[n] == ' ')
        n++;
    return n;
}

/* False: the line has no field. */
static bool follow_line(struct line_path *p, struct str line)
{
    size_t indent = count_indent(line), depth = indent / INDENT, at;
    struct str name, rest = { line.p + indent, line.n - indent };

    if (!rest.n || rest.p[0] == '#' || depth >= DEPTH_MAX || !str_cut(rest, ':', &name).p)
        return false;
    at = depth ? p->ends[depth - 1] : 0;
    if (at + name.n + 2 > sizeof p->text)
        return false;
    if (at)
        p->text[at++] = '.';
    memcpy(p->text + at, name.p, name.n);
    p->text[at + name.n] = '\0';
    p->ends[depth] = at + name.n;
    return true;
}

static const char *find_origin(const struct sources *s, const char *path)
{
    const char *variable = sources_variable(path);

    for (size_t i = s->n; !variable && i-- > 0;) {
        bool whole = false;

        if (s->files[i].document)
            yaml_file_at(s->files[i].document, path, &whole);
        if (whole)
            return s->files[i].path;
    }
    return variable;
}

/* An object's own line ends with its colon; its fields have origins of their own. */
static void annotate_line(const struct sources *s, struct line_path *p, struct str line,
                          struct buf *out)
{
    const char *origin = NULL;

    if (follow_line(p, line) && line.p[line.n - 1] != ':')
        origin = find_origin(s, p->text);
    buf_add(out, line);
    if (origin)
        buf_addf(out, "  # from %s", origin);
    buf_add_c(out, '\n');
}

int config_annotate(const char *file, struct str yaml, struct buf *out, struct arena *a,
                    struct err *e)
{
    struct line_path path = { .text = "" };
    struct sources s;
    struct config c;
    struct str line;
    int r;

    sources_choose(file, &s);
    r = sources_load(&s, &c, a, e);
    while (r >= 0 && yaml.n) {
        yaml = str_cut(yaml, '\n', &line);
        annotate_line(&s, &path, line, out);
    }
    return r;
}

int config_write_defaults(struct buf *out, struct arena *a, struct err *e)
{
    static const struct json empty = { .type = JSON_OBJECT };
    AUTO(buf_done) struct buf yaml = BUF_INIT(TEXT_BYTES_MAX);
    struct config c = { 0 };
    struct str rest, line;
    int r = json_bind(&empty, config_fields, config_field_count, &c, a, e);

    if (r >= 0)
        r = config_write(&c, CONFIG_YAML, &yaml, e);
    rest = buf_str(&yaml);
    while (r >= 0 && rest.n) {
        rest = str_cut(rest, '\n', &line);
        if (line.n > count_indent(line) && line.p[count_indent(line)] != '#')
            buf_add_c(out, '#');
        buf_add(out, line);
        buf_add_c(out, '\n');
    }
    return r;
}
