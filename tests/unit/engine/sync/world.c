/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/tar/pack.h"
#include "lib/tar/unpack.h"

enum { LINES_MAX = 256, WORLDS_MAX = 100 };

static struct {
    enum sync_action action;
    char path[256];
} lines[LINES_MAX];
static unsigned line_count;

static void on_line(void *ctx, const struct sync_line *line)
{
    if (line_count == LINES_MAX)
        return;
    lines[line_count].action = line->action;
    if (!str_copy(line->path, lines[line_count].path, sizeof lines[0].path))
        lines[line_count].path[0] = '\0';
    line_count++;
}

bool said(enum sync_action action, const char *path)
{
    for (unsigned i = 0; i < line_count; i++)
        if (lines[i].action == action && strcmp(lines[i].path, path) == 0)
            return true;
    return false;
}

unsigned lines_said(void)
{
    return line_count;
}

void forget_lines(void)
{
    line_count = 0;
}

int memory_file(void)
{
    int fd = memfd_create("stream", MFD_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

void rewind_file(int fd)
{
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
}

struct world *world_make(void)
{
    static struct world worlds[WORLDS_MAX];
    static unsigned count;
    struct world *w = &worlds[count++];

    CHECK(count <= WORLDS_MAX);
    w->s = scratch_make();
    w->host = make_dir(w->s.dir, "host");
    w->box = make_dir(w->s.dir, "box");
    w->manifest = -1;
    w->options.line = on_line;
    return w;
}

void world_send(struct world *w)
{
    static const struct tree_unpack_options as_pid_1 = { .devices = TREE_SKIP, .keep_root = true };
    int stream = memory_file(), manifest = memory_file();
    struct tree_report report;

    line_count = 0;
    CHECK_OK(sync_send(w->host, stream, manifest, &w->options, &w->report, &w->e), w->e);
    CHECK(w->report.manifest);
    rewind_file(stream);
    rewind_file(manifest);
    CHECK_OK(tree_unpack(stream, w->box, &as_pid_1, &report, &w->e), w->e);
    close(stream);
    w->manifest = manifest;
}

int world_receive_fd(struct world *w, int fd, unsigned flags)
{
    int manifest = memory_file(), r;

    if (w->manifest >= 0)
        rewind_file(w->manifest);
    line_count = 0;
    w->options.flags = flags;
    r = sync_receive(w->host, fd, w->manifest, manifest, &w->options, &w->report, &w->e);
    rewind_file(manifest);
    if (w->report.manifest)
        w->manifest = manifest;
    return r;
}

int world_receive(struct world *w, unsigned flags)
{
    static const struct tree_pack_options options;
    int stream = memory_file(), r;
    struct tree_report report;

    CHECK_OK(tree_pack(stream, w->s.dir, "box", &options, &report, &w->e), w->e);
    rewind_file(stream);
    w->options.top = "box";
    r = world_receive_fd(w, stream, flags);
    close(stream);
    return r;
}

int world_receive_archive(struct world *w, const struct archive *a, unsigned flags)
{
    int fd = archive_fd(a), r;

    w->options.top = NULL;
    r = world_receive_fd(w, fd, flags);
    close(fd);
    return r;
}
