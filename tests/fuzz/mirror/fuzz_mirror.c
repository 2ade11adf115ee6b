/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a manifest: one that can be read must survive being written and read again. The same bytes
 * are also fed to the reader of reports, in two pieces, and judged as the path of a file. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/sync/manifest.h"
#include "engine/sync/report.h"
#include "engine/sync/sensitive.h"
#include "engine/sync/spelling.h"
#include "lib/tar/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool true_)
{
    if (!true_)
        abort();
}

static const struct sync_limits limits = { .entries = 1000 };

static int load(struct sync_manifest *m, int fd)
{
    struct err e;

    must(lseek(fd, 0, SEEK_SET) == 0);
    must(sync_manifest_init(m, &limits, &e) >= 0);
    return sync_manifest_load(m, fd, &e);
}

static void read_manifest(const uint8_t *data, size_t size)
{
    int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    struct sync_manifest m, again;
    struct err e;

    must(in >= 0 && out >= 0 && write(in, data, size) == (ssize_t)size);
    if (load(&m, in) >= 0) {
        must(sync_manifest_save(&m, out, &e) >= 0 && load(&again, out) >= 0);
        must(m.count == again.count && lseek(out, 0, SEEK_END) == (off_t)size);
        sync_manifest_done(&again);
    }
    sync_manifest_done(&m);
    close(in);
    close(out);
}

static void check_line(void *ctx, const struct sync_line *line)
{
    must(sync_action_name(line->action) && line->path.n > 0 && line->path.p[0] != '/');
    must(strnlen(line->reason, SYNC_REASON_MAX) < SYNC_REASON_MAX);
}

static void read_report(const uint8_t *data, size_t size)
{
    static struct sync_report_reader r;
    struct err e;

    sync_report_reader_init(&r, check_line, NULL);
    if (sync_report_feed(&r, (struct str){ (const char *)data, size / 3 }, &e) >= 0)
        (void)sync_report_feed(&r, (struct str){ (const char *)data + size / 3, size - size / 3 },
                               &e);
    if (r.ended)
        must(r.end.r <= 0 && strnlen(r.end.e.msg, sizeof r.end.e.msg) < sizeof r.end.e.msg);
}

static struct str last_component(struct str path)
{
    struct str name = path;

    while (path.n > 0)
        path = str_cut(path, '/', &name);
    return name;
}

/* Every component has a folded one. A hidden name stays hidden, and is held if it is unknown. */
static void judge_path(const uint8_t *data, size_t size)
{
    static const struct sync_place place = { .path = "/srv/x", .n = 6, .known = true };
    const struct sensitive_view view = { .place = &place };
    static struct tree_path path;
    static char folded[TREE_PATH_MAX];
    struct str text, name, short_name;
    size_t n;

    if (tree_path((struct str){ (const char *)data, size }, &path, NULL) < 0 || path.n == 0)
        return;
    text = (struct str){ path.text, path.n };
    n = spelling_fold(text, folded);
    must(n > 0 && n <= path.n && folded[0] != '/' && folded[n - 1] != '/');
    for (size_t i = 1; i < n; i++)
        must(folded[i] != '/' || folded[i - 1] != '/');
    name = last_component(text);
    short_name = last_component((struct str){ folded, n });
    must(name.p[0] != '.' || short_name.p[0] == '.');
    if (str_starts(name, STR(".unknown")) || str_eq(short_name, STR("CLAUDE.md")))
        must(sensitive_reason(&view, text));
    (void)sensitive_reason(&view, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_manifest(data, size);
    read_report(data, size);
    judge_path(data, size);
    return 0;
}
