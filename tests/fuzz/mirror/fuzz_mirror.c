/* Reads a manifest: one that can be read must survive being written and read again. The same bytes
 * are also fed to the reader of reports, in two pieces. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mirror/manifest.h"
#include "mirror/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool true_)
{
    if (!true_)
        abort();
}

static const struct mirror_limits limits = { .entries = 1000 };

static int load(struct mirror_manifest *m, int fd)
{
    struct err e;

    must(lseek(fd, 0, SEEK_SET) == 0);
    must(mirror_manifest_init(m, &limits, &e) >= 0);
    return mirror_manifest_load(m, fd, &e);
}

static void read_manifest(const uint8_t *data, size_t size)
{
    int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    struct mirror_manifest m, again;
    struct err e;

    must(in >= 0 && out >= 0 && write(in, data, size) == (ssize_t)size);
    if (load(&m, in) >= 0) {
        must(mirror_manifest_save(&m, out, &e) >= 0 && load(&again, out) >= 0);
        must(m.count == again.count && lseek(out, 0, SEEK_END) == (off_t)size);
        mirror_manifest_done(&again);
    }
    mirror_manifest_done(&m);
    close(in);
    close(out);
}

static void check_line(void *ctx, const struct mirror_line *line)
{
    (void)ctx;
    must(mirror_action_name(line->action) && line->path.n > 0 && line->path.p[0] != '/');
    must(strnlen(line->reason, MIRROR_REASON_MAX) < MIRROR_REASON_MAX);
}

static void read_report(const uint8_t *data, size_t size)
{
    static struct mirror_report_reader r;
    struct err e;

    mirror_report_reader_init(&r, check_line, NULL);
    if (mirror_report_feed(&r, (struct str){ (const char *)data, size / 3 }, &e) >= 0)
        (void)mirror_report_feed(&r, (struct str){ (const char *)data + size / 3, size - size / 3 },
                                 &e);
    if (r.ended)
        must(r.end.r <= 0 && strnlen(r.end.e.msg, sizeof r.end.e.msg) < sizeof r.end.e.msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_manifest(data, size);
    read_report(data, size);
    return 0;
}
