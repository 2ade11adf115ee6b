/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "base/own.h"
#include "lib/json/build.h"
#include "lib/yaml/scalar.h"

struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; owned, replaced by next_event() */
    struct str text;
    unsigned depth;
    struct json_limits limits;
    struct json_build build;
    struct err *e;
};

static void reader_done(struct yaml_reader *r)
{
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
    json_build_done(&r->build);
}

__attribute__((format(printf, 4, 5))) static int fail_at(struct yaml_reader *r, yaml_mark_t at,
                                                         enum err_code code, const char *fmt, ...)
{
    char reason[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    return err_set(r->e, code, "line %zu, column %zu: %s", at.line + 1, at.column + 1, reason);
}

/* About the current event. */
#define fail(r, ...) fail_at((r), (r)->event.start_mark, ERR_INVALID, __VA_ARGS__)

static int fail_yaml_memory(struct yaml_reader *r)
{
    return err_set(r->e, ERR_TOO_BIG, "the document needs more memory than the allowed %zu bytes",
                   r->build.arena->max);
}

/* The place of a byte, for the errors that the library gives no mark. */
static yaml_mark_t mark_of_offset(struct str text, size_t offset)
{
    yaml_mark_t mark = { .index = offset };

    for (size_t i = 0; i < offset && i < text.n; i++) {
        mark.column++;
        if (text.p[i] == '\n') {
            mark.line++;
            mark.column = 0;
        }
    }
    return mark;
}

static int fail_parser(struct yaml_reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "not valid YAML";

    if (p->error == YAML_MEMORY_ERROR)
        abort();
    if (p->error == YAML_READER_ERROR)
        return fail_at(r, mark_of_offset(r->text, p->problem_offset), ERR_INVALID, "%s", problem);
    if (p->context)
        return fail_at(r, p->problem_mark, ERR_INVALID, "%s: %s", p->context, problem);
    return fail_at(r, p->problem_mark, ERR_INVALID, "%s", problem);
}

static int next_event(struct yaml_reader *r)
{
    yaml_event_delete(&r->event);
    return yaml_parser_parse(&r->parser, &r->event) ? 0 : fail_parser(r);
}

static void record_yaml_position(struct yaml_reader *r, struct json *v)
{
    yaml_mark_t at = r->event.start_mark;

    v->line = at.line < UINT32_MAX ? (uint32_t)at.line + 1 : UINT32_MAX;
    v->column = at.column < UINT16_MAX ? (uint16_t)(at.column + 1) : UINT16_MAX;
}

static int copy_yaml_str(struct yaml_reader *r, struct str s, struct str *ret)
{
    const char *copy = arena_dup(r->build.arena, s);

    if (!copy)
        return fail_yaml_memory(r);
    *ret = (struct str){ copy, s.n };
    return 0;
}

static struct str scalar_text(const struct yaml_reader *r)
{
    const void *text = r->event.data.scalar.value;

    return (struct str){ text, r->event.data.scalar.length };
}

static bool is_plain_event(const struct yaml_reader *r)
{
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static int read_scalar(struct yaml_reader *r, struct json *v)
{
    struct str text = scalar_text(r);
    const char *why;

    if (is_plain_event(r)) {
        if (!yaml_plain(text, v, &why))
            return fail(r, "%s", why);
        if (v->type != JSON_STR)
            return 0;
    }
    v->type = JSON_STR;
    return copy_yaml_str(r, text, &v->s);
}

/* Refuses anchors and tags. */
static int check_plainness(struct yaml_reader *r, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return fail(r, "anchors (&name) are not supported; write the value out");
    if (tag)
        return fail(r, "tags (!name) are not supported; leave it out");
    return 0;
}

/* The current event has to be the key of a member. */
static int read_yaml_key(struct yaml_reader *r, struct str *ret)
{
    struct str text = scalar_text(r);
    struct json v = { 0 };
    const char *why;
    int rc;

    if (r->event.type != YAML_SCALAR_EVENT)
        return fail(r, "a key has to be a string");
    rc = check_plainness(r, r->event.data.scalar.anchor, r->event.data.scalar.tag);
    if (rc < 0)
        return rc;
    if (is_plain_event(r) && str_eq(text, STR("<<")))
        return fail(r, "merge keys (<<) are not supported; write the members out");
    if (is_plain_event(r) && (!yaml_plain(text, &v, &why) || v.type != JSON_STR))
        return fail(r, "a key has to be a string; put it in quotes");
    return copy_yaml_str(r, text, ret);
}

static int read_yaml_value(struct yaml_reader *r, struct json *v);

/* The current event is the first of an item or member; onto the pile of its list with it. */
static int read_yaml_item(struct yaml_reader *r, bool keyed)
{
    struct json v = { 0 };
    int rc = 0;

    record_yaml_position(r, &v);
    if (keyed) {
        rc = read_yaml_key(r, &v.key);
        if (rc >= 0)
            rc = next_event(r);
    }
    if (rc >= 0)
        rc = read_yaml_value(r, &v);
    if (rc < 0)
        return rc;
    return json_build_push(&r->build, &v) < 0 ? fail_yaml_memory(r) : 0;
}

static int read_yaml_items(struct yaml_reader *r, bool keyed)
{
    yaml_event_type_t end = keyed ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;

    for (;;) {
        int rc = next_event(r);

        if (rc < 0 || r->event.type == end)
            return rc;
        rc = read_yaml_item(r, keyed);
        if (rc < 0)
            return rc;
    }
}

static int read_yaml_list(struct yaml_reader *r, struct json *v, enum json_type type)
{
    size_t mark = json_build_mark(&r->build);
    const struct json *twice;
    int rc;

    if (r->depth == r->limits.depth)
        return fail_at(r, r->event.start_mark, ERR_TOO_BIG,
                       "lists and mappings are more than %u levels deep", r->limits.depth);
    r->depth++;
    rc = read_yaml_items(r, type == JSON_OBJECT);
    if (rc < 0)
        return rc;
    r->depth--;
    v->type = type;
    if (json_build_close(&r->build, mark, v) < 0)
        return fail_yaml_memory(r);
    twice = type == JSON_OBJECT ? json_build_twice(&r->build, v) : NULL;
    return twice ? err_set(r->e, ERR_INVALID,
                           "line %u, column %u: this key appears twice in the mapping", twice->line,
                           twice->column)
                 : 0;
}

/* The value that the current event begins; afterwards the current event is its last. */
static int read_yaml_value(struct yaml_reader *r, struct json *v)
{
    const yaml_event_t *ev = &r->event;
    int rc;

    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        rc = check_plainness(r, ev->data.scalar.anchor, ev->data.scalar.tag);
        return rc < 0 ? rc : read_scalar(r, v);
    case YAML_SEQUENCE_START_EVENT:
        rc = check_plainness(r, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);
        return rc < 0 ? rc : read_yaml_list(r, v, JSON_ARRAY);
    case YAML_MAPPING_START_EVENT:
        rc = check_plainness(r, ev->data.mapping_start.anchor, ev->data.mapping_start.tag);
        return rc < 0 ? rc : read_yaml_list(r, v, JSON_OBJECT);
    case YAML_ALIAS_EVENT:
        return fail(r, "aliases (*name) are not supported; write the value out");
    default:
        return fail(r, "expected a value");
    }
}

/* From the start of the document to its end; both are events of their own. */
static int read_yaml_document(struct yaml_reader *r, struct json *v)
{
    const yaml_event_t *start = &r->event;
    int rc;

    if (start->data.document_start.version_directive ||
        start->data.document_start.tag_directives.start !=
            start->data.document_start.tag_directives.end)
        return fail(r, "directives (%%YAML, %%TAG) are not supported; leave them out");
    rc = next_event(r);
    if (rc < 0)
        return rc;
    record_yaml_position(r, v);
    rc = read_yaml_value(r, v);
    return rc < 0 ? rc : next_event(r);
}

static int read_yaml_stream(struct yaml_reader *r, struct json *v)
{
    int rc = next_event(r); /* the start of the stream … */

    if (rc >= 0)
        rc = next_event(r); /* … and of the document */
    if (rc >= 0 && r->event.type == YAML_DOCUMENT_START_EVENT) {
        rc = read_yaml_document(r, v);
        if (rc >= 0)
            rc = next_event(r);
    }
    if (rc < 0)
        return rc;
    return r->event.type == YAML_STREAM_END_EVENT ? 0 : fail(r, "only one document is allowed");
}

int yaml_read(struct str text, struct json_limits limits, struct arena *a, const struct json **ret,
              struct err *e)
{
    AUTO(reader_done) struct yaml_reader r = { .text = text, .limits = limits, .e = e };
    struct json *root;
    int rc;

    if (text.n > limits.bytes)
        return err_set(e, ERR_TOO_BIG, "the document has %zu bytes; %zu are allowed", text.n,
                       limits.bytes);
    if (str_starts(text, STR("\xEF\xBB\xBF")))
        return err_set(e, ERR_INVALID,
                       "line 1, column 1: the text starts with a byte order mark; leave it out");
    if (!yaml_parser_initialize(&r.parser))
        abort();
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.p, text.n);
    json_build_init(&r.build, a);
    if (r.limits.depth > JSON_DEPTH_MAX)
        r.limits.depth = JSON_DEPTH_MAX;
    root = arena_alloc(a, sizeof *root);
    if (!root)
        return fail_yaml_memory(&r);
    rc = read_yaml_stream(&r, root);
    if (rc < 0)
        return rc;
    *ret = root;
    return 0;
}
