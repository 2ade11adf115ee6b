/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/answer.h"
#include "cli/progress.h"
#include "cli/verbs/verbs.h"

/* --- export --- */

struct export_options {
    struct common common;
    bool without;
};

static const struct option_spec export_options[] = {
    { "without-image", 0, NULL, "leave out the layers of its image", .kind = OPTION_FLAG,
      .at = offsetof(struct export_options, without) },
};

enum { TARGET_MAX = 4096 };

/* A file of that name is whole, or what it was before. */
struct target {
    const char *path;
    char partial[TARGET_MAX]; /* our own temporary file; empty: not made, or renamed already */
    int fd;
};

/* The one whose partial file goes if a signal ends us. */
static const struct target *unfinished;

static void on_export_signal(int sig)
{
    if (unfinished)
        (void)unlink(unfinished->partial);
    raise(sig); /* as it would be without us, when we return */
}

static void remove_if_ended(const struct target *t)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_export_signal, .sa_flags = (int)SA_RESETHAND },
                     was;

    unfinished = t;
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
}

static int target_open(struct target *t, const char *path, struct err *e)
{
    t->path = path;
    t->fd = STDOUT_FILENO;
    if (strcmp(path, "-") == 0)
        return 0;
    if (snprintf(t->partial, sizeof t->partial, "%s.XXXXXX", path) >= (int)sizeof t->partial) {
        t->partial[0] = '\0';
        return err_set(e, ERR_INVALID, "the name is too long");
    }
    remove_if_ended(t);
    t->fd = mkostemp(t->partial, O_CLOEXEC);
    if (t->fd >= 0)
        return 0;
    t->partial[0] = '\0';
    return err_sys(e, "a file beside %s", path);
}

/* The name is on disk, too. */
static int sync_dir_of(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char dir[TARGET_MAX] = ".";
    AUTO_CLOSE int fd = -1;

    if (slash) /* with it: of "/file" it is the directory */
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path + 1), path);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "forcing %s to disk", dir) : 0;
}

static int target_publish(struct target *t, struct err *e)
{
    if (!t->partial[0])
        return 0;
    if (fsync(t->fd) < 0 || rename(t->partial, t->path) < 0)
        return err_sys(e, "%s", t->path);
    unfinished = NULL;
    t->partial[0] = '\0';
    return sync_dir_of(t->path, e);
}

static void target_done(struct target *t)
{
    if (t->partial[0])
        (void)unlink(t->partial);
    unfinished = NULL;
    if (t->fd > STDERR_FILENO)
        close(t->fd);
}

static int receive_snapshot(struct api_call *c, struct target *t)
{
    struct str piece;
    struct err e;
    int status = api_call_open(c);

    while (status == 0 && api_call_next(c, &piece, &status) > 0) {
        progress_moved(piece.n);
        if (write_all(t->fd, piece, &e) < 0)
            status = api_call_failed(c, &e);
    }
    if (status == 0 && target_publish(t, &e) < 0)
        status = api_call_failed(c, &e);
    return status;
}

static int run_snapshots_export(const struct verb *v, int argc, char **argv)
{
    struct export_options o = { 0 };
    AUTO(target_done) struct target t = { .fd = -1 };
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (strcmp(argv[1], "-") == 0 && isatty(STDOUT_FILENO) == 1)
        return verb_misused(v, "'-' writes the file to stdout, which is a terminal");
    if (target_open(&t, argv[1], &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/snapshots/%s/export", argv[0]);
    api_call_query(&c, "without_image", o.without ? "true" : NULL);
    c.doing = "exporting";
    c.patience = 0;
    return receive_snapshot(&c, &t);
}

const struct verb verb_snapshots_export = {
    .name = "snapshots export",
    .arguments = "SNAPSHOT FILE|-",
    .summary = "write a snapshot to a file, to keep it or to move it to another machine",
    .text =
        "The file contains every byte and attribute, compressed with zstd, the snapshot's "
        "origin, and the\n"
        "layers of its image. It is whole, or it is not there.\n"
        "\n"
        "  sandboxer snapshots export before-upgrade before-upgrade.snapshot\n"
        "  sandboxer snapshots export before-upgrade - | ssh other sandboxer snapshots import -\n",
    .options = export_options,
    .n_options = COUNT_OF(export_options),
    .run = run_snapshots_export,
    .flags = VERB_REMOTE,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SNAPSHOT,
};

/* --- import --- */

struct snapshot_import_options {
    struct common common;
    const char *name;
};

static const struct option_spec import_options[] = {
    { "name", 0, "NAME", "name of the snapshot (default: the name in the file)",
      .kind = OPTION_TEXT, .at = offsetof(struct snapshot_import_options, name) },
};

/* An http_client_more_fn. */
static int read_snapshot_piece(void *user, char *out, size_t cap, struct err *e)
{
    const int *fd = user;
    ssize_t n;

    do
        n = read(*fd, out, cap);
    while (n < 0 && errno == EINTR);
    return n < 0 ? err_sys(e, "reading the file") : (int)n;
}

static int run_snapshots_import(const struct verb *v, int argc, char **argv)
{
    struct snapshot_import_options o = { 0 };
    AUTO_CLOSE int fd = -1;
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    fd = strcmp(argv[0], "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                   : open(argv[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        (void)err_sys(&e, "%s", argv[0]);
        return api_call_failed(&c, &e);
    }
    api_call_path(&c, "/v1/snapshots/import");
    api_call_query(&c, "name", o.name);
    api_call_field(&c, "Content-Type", "application/zstd");
    c.more = read_snapshot_piece;
    c.more_user = &fd;
    c.doing = "importing";
    c.patience = 0;
    status = api_call_run(&c);
    return status ? status : answer_record(&c, c.answer, &kind_snapshot);
}

const struct verb verb_snapshots_import = {
    .name = "snapshots import",
    .arguments = "FILE|-",
    .summary = "import a snapshot from a file of 'snapshots export'",
    .text = "The whole file is checked before the snapshot is created. Layers of an image that is "
            "stored here\n"
            "are not stored twice; a file without them needs that image.\n"
            "\n"
            "  sandboxer snapshots import before-upgrade.snapshot\n",
    .options = import_options,
    .n_options = COUNT_OF(import_options),
    .run = run_snapshots_import,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};
