/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "domain/config/config.h"
#include "lib/json/reader.h"

enum { TEXT_MAX = 1 << 20 }; /* bytes of JSON; comments do not double it */

static int write_json(const struct config *c, enum json_style style, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, style);
    json_unbind(c, config_fields, config_field_count, &w);
    return json_writer_finish(&w, e);
}

static int write_yaml_fields(struct buf *out, const struct json *object,
                             const struct json_field *fields, size_t n, int indent, struct err *e);

static int write_yaml_field(struct buf *out, const struct json *v, const struct json_field *f,
                            int indent, struct err *e)
{
    struct json_writer w;
    int r;

    if (f->doc)
        buf_addf(out, "%*s# %s\n", indent, "", f->doc);
    if (!v) {
        buf_addf(out, "%*s#%s:\n", indent, "", f->name);
        return 0;
    }
    if (f->kind == JSON_KIND_OBJECT) {
        buf_addf(out, "%*s%s:\n", indent, "", f->name);
        return write_yaml_fields(out, v, f->fields, f->field_count, indent + 2, e);
    }
    buf_addf(out, "%*s%s: ", indent, "", f->name);
    json_writer_init(&w, out, JSON_COMPACT); /* on one line: JSON is valid YAML */
    json_put_tree(&w, v);
    r = json_writer_finish(&w, e);
    if (r >= 0)
        buf_add_c(out, '\n');
    return r;
}

static int write_yaml_fields(struct buf *out, const struct json *object,
                             const struct json_field *fields, size_t n, int indent, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = write_yaml_field(out, json_get(object, str_from(fields[i].name)), &fields[i], indent,
                             e);
    return r;
}

static int write_yaml(const struct config *c, struct buf *out, struct err *e)
{
    static const struct json_limits limits = { .bytes = TEXT_MAX, .depth = JSON_DEPTH_MAX };
    AUTO(arena_done) struct arena a = ARENA_INIT(16 * TEXT_MAX);
    AUTO(buf_done) struct buf json = BUF_INIT(TEXT_MAX), yaml = BUF_INIT(2 * TEXT_MAX);
    const struct json *document;
    int r = write_json(c, JSON_COMPACT, &json, e);

    if (r >= 0)
        r = json_read(buf_str(&json), limits, &a, &document, e);
    if (r >= 0)
        r = write_yaml_fields(&yaml, document, config_fields, config_field_count, 0, e);
    if (r < 0)
        return r;
    if (buf_add(out, buf_str(&yaml)) < 0)
        return err_set(e, ERR_TOO_BIG, "the configuration has more than %zu bytes", out->max);
    return 0;
}

int config_write(const struct config *c, enum config_format format, struct buf *out, struct err *e)
{
    return format == CONFIG_JSON ? write_json(c, JSON_PRETTY, out, e) : write_yaml(c, out, e);
}
