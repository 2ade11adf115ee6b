/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/domain/profile/doc_rows.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "harness/tap.h"

static const char *const kinds[JSON_KIND_COUNT_] = {
    [JSON_KIND_BOOL] = "true or false",
    [JSON_KIND_INT] = "whole number",
    [JSON_KIND_UINT] = "whole number",
    [JSON_KIND_DOUBLE] = "number",
    [JSON_KIND_STR] = "text",
    [JSON_KIND_BYTES] = "size",
    [JSON_KIND_DURATION] = "duration",
    [JSON_KIND_STRS] = "list of texts",
    [JSON_KIND_MAP] = "names and texts",
    [JSON_KIND_OBJECTS] = "list",
    [JSON_KIND_NAMED] = "objects by name",
    [JSON_KIND_ANY] = "see meaning",
};

static void add_kind(struct buf *out, const struct json_field *f)
{
    if (f->kind != JSON_KIND_ENUM) {
        buf_addf(out, "%s", kinds[f->kind]);
        return;
    }
    for (size_t i = 0; f->names[i]; i++)
        buf_addf(out, "%s`%s`", i ? ", " : "", f->names[i]);
}

const struct json_field *doc_rows_elsewhere;

static void add_rows(struct buf *out, const char *prefix, const struct json_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct json_field *f = &fields[i];
        char name[128];

        snprintf(name, sizeof name, "%s%s%s", prefix, f->name,
                 f->kind == JSON_KIND_OBJECT    ? "."
                 : f->kind == JSON_KIND_OBJECTS ? "[]."
                 : f->kind == JSON_KIND_NAMED   ? ".NAME."
                                                : "");
        if (f->kind != JSON_KIND_OBJECT) {
            buf_addf(out, "| `%s%s` | ", prefix, f->name);
            add_kind(out, f);
            buf_addf(out,
                     f->preset     ? " | `%s`"
                     : f->required ? " | required"
                                   : " | ",
                     f->preset ? f->preset : "");
            buf_addf(out, " | %s |\n", f->doc);
        }
        if (!f->fields || f->fields != doc_rows_elsewhere)
            add_rows(out, name, f->fields, f->field_count);
    }
}

static void read_page(const char *page, struct buf *out)
{
    char path[4096], chunk[4096];
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/%s", SOURCE_ROOT, page);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        FAIL("cannot open %s", path);
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        CHECK(buf_add(out, (struct str){ chunk, (size_t)n }) == 0);
    close(fd);
}

/* Only the rows whose first cell is code. */
static void keep_rows(struct str page, struct buf *out)
{
    struct str line;

    while (page.n) {
        page = str_cut(page, '\n', &line);
        if (str_starts(line, STR("| `")))
            buf_addf(out, STR_FMT "\n", STR_ARG(line));
    }
}

void check_doc_rows(const char *page, const struct json_field *fields, size_t n)
{
    struct buf want = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);

    add_rows(&want, "", fields, n);
    read_page(page, &text);
    keep_rows(buf_str(&text), &got);
    if (!str_eq(buf_str(&got), buf_str(&want))) {
        fputs(want.p, stderr); /* to be put in */
        FAIL("the rows of %s are not those above", page);
    }
    buf_done(&want);
    buf_done(&text);
    buf_done(&got);
}
