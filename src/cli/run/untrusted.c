/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/untrusted.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/run/postflight.h"
#include "cli/run/preflight.h"
#include "cli/run/helper.h"
#include "cli/text_file.h"
#include "base/io.h"
#include "engine/scan/scan.h"
#include "lib/tar/pack.h"
#include "lib/tar/remove.h"
#include "lib/tar/unpack.h"

enum {
    NO_REPLACE = 1, /* RENAME_NOREPLACE, which musl's headers may lack */
    ANSWER_TREE_MAX = 64 << 20,
};

#define TAR_MAX (UINT64_C(320) << 20)

static const char *program_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool untrusted_options_any(const struct untrusted_options *o)
{
    const struct step_options *s = &o->steps;

    return o->input || o->output || o->manifest || s->block || s->config || s->timeout ||
           s->preflight.command || s->preflight.mcp || s->preflight.tool || s->postflight.command ||
           s->postflight.mcp || s->postflight.tool;
}

/* --- Before --- */

/* The places of output and manifest, which must be free. */
static int choose_places(struct untrusted *u, struct err *e)
{
    const struct untrusted_options *o = u->o;
    struct stat st;
    int n = o->output ? snprintf(u->output, sizeof u->output, "%s", o->output)
                      : snprintf(u->output, sizeof u->output, "%s.out", program_base_name(o->file));

    while (n > 1 && n < (int)sizeof u->output && u->output[n - 1] == '/')
        u->output[--n] = '\0';
    if (n >= (int)sizeof u->output ||
        snprintf(u->manifest, sizeof u->manifest, "%s%s", o->manifest ? o->manifest : u->output,
                 o->manifest ? "" : ".manifest.json") >= (int)sizeof u->manifest)
        return err_set(e, ERR_TOO_BIG,
                       "--output: the paths of output and manifest have at most %zu bytes",
                       sizeof u->output - 1);
    if (lstat(u->output, &st) == 0)
        return err_set(e, ERR_CONFLICT, "%s is there already; --output names another place",
                       u->output);
    if (lstat(u->manifest, &st) == 0)
        return err_set(e, ERR_CONFLICT, "%s is there already; --manifest names another place",
                       u->manifest);
    return 0;
}

static int open_at(int dir, const char *path, int *ret, struct err *e)
{
    *ret = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, "%s", path) : 0;
}

/* Stages the input as an archive and as the directory that the output is compared with: the same
 * bytes, even if the original changes. */
static int stage_input(struct untrusted *u, struct err *e)
{
    const struct tree_pack_options pack = { .set_owner = true };
    const struct tree_unpack_options unpack = { .keep_root = true };
    AUTO_CLOSE int from = -1, to = -1;
    struct tree_report report;
    int r = open_at(u->stage_fd, "input", &to, e);

    if (r < 0 || !u->o->input)
        return r;
    u->feed = openat(u->stage_fd, "feed", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (u->feed < 0)
        return err_sys(e, "making a file in %s", u->stage);
    r = open_at(AT_FDCWD, u->o->input, &from, e);
    if (r >= 0)
        r = tree_pack(u->feed, from, ".", &pack, &report, e);
    if (r >= 0 && lseek(u->feed, 0, SEEK_CUR) > (off_t)TAR_MAX)
        r = err_set(e, ERR_TOO_BIG, "it has more than %d MiB", (int)(TAR_MAX >> 20));
    if (r >= 0 && lseek(u->feed, 0, SEEK_SET) == 0)
        r = tree_unpack(u->feed, to, &unpack, &report, e);
    if (r >= 0 && lseek(u->feed, 0, SEEK_SET) < 0)
        r = err_sys(e, "going back in a file");
    return err_wrap(e, r, "the input");
}

/* The stage is beside the output, so that the output can be moved in one step. */
static int make_stage(struct untrusted *u, struct err *e)
{
    char path[PATH_MAX];
    AUTO_CLOSE int file = -1;

    snprintf(path, sizeof path, "%s.XXXXXX", u->output);
    if (!mkdtemp(path))
        return err_sys(e, "making a directory beside %s", u->output);
    memcpy(u->stage, path, strlen(path) + 1);
    u->stage_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->stage_fd < 0 || mkdirat(u->stage_fd, "program", 0755) < 0 ||
        mkdirat(u->stage_fd, "output", 0755) < 0 || mkdirat(u->stage_fd, "input", 0755) < 0)
        return err_sys(e, "making %s", path);
    u->tar = openat(u->stage_fd, "tar", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    file = openat(u->stage_fd, "program/program", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (u->tar < 0 || file < 0)
        return err_sys(e, "making files in %s", path);
    if (write_all(file, buf_str(&u->text), e) < 0)
        return -(int)ERR_SYS;
    if (fchmod(file, 0555) < 0) /* as it was scanned, it stays */
        return err_sys(e, "setting a mode");
    return stage_input(u, e);
}

/* Executables and files with a #! line run directly; others with the interpreter of their type. */
static int choose_command(struct untrusted *u, char **arguments, struct err *e)
{
    static const char *const interpreters[] = {
        [SCAN_SHELL] = "sh", [SCAN_PYTHON] = "python3", [SCAN_JAVASCRIPT] = "node"
    };
    struct str text = buf_str(&u->text);
    enum scan_language language = scan_language_of(u->o->file, text);
    size_t n = 0;

    if (snprintf(u->program, sizeof u->program, "/untrusted/%s", program_base_name(u->o->file)) >=
        (int)sizeof u->program)
        return err_set(e, ERR_TOO_BIG, "%.80s…: the name of the program has more than %zu bytes",
                       program_base_name(u->o->file), sizeof u->program - sizeof "/untrusted/");
    if (!str_starts(text, STR("#!")) && language != SCAN_BINARY) {
        if (language == SCAN_UNKNOWN || language == SCAN_C)
            return err_set(e, ERR_INVALID,
                           "%s: no interpreter for this type of file; begin it with a #! line",
                           u->o->file);
        u->argv[n++] = interpreters[language];
    }
    u->argv[n++] = u->program;
    for (; *arguments; arguments++) {
        if (n == OPTION_LIST_MAX)
            return err_set(e, ERR_TOO_BIG, "more than %d arguments", OPTION_LIST_MAX);
        u->argv[n++] = *arguments;
    }
    return 0;
}

int untrusted_begin(struct untrusted *u, const struct untrusted_options *o, char **arguments,
                    struct err *e)
{
    int r;

    u->o = o;
    buf_init(&u->text, SCAN_INPUT_MAX);
    arena_init(&u->arena, ANSWER_TREE_MAX);
    r = choose_places(u, e);
    if (r >= 0)
        r = text_file_read(o->file, &u->text, e);
    if (r >= 0)
        r = choose_command(u, arguments, e);
    if (r >= 0)
        r = preflight_check(o->file, buf_str(&u->text), &o->steps, &u->arena, &u->preflight, e);
    return r < 0 ? r : make_stage(u, e);
}

/* Between the input's arrival and the program's start. */
static int begin_changes(struct session *s, struct err *e)
{
    struct untrusted *u = s->prepare_for;
    AUTO_CLOSE int host = -1;
    bool layered = s->plan.n_layers;

    if (!layered && (host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return err_sys(e, "opening the root directory");
    return changes_begin(&u->changes, s->layer, layered ? s->fds[0] : host, layered, s->userns, e);
}

int untrusted_join(struct untrusted *u, struct session *s, struct err *e)
{
    char source[PATH_MAX + 32];

    snprintf(source, sizeof source, "%s/program/program", u->stage);
    s->collect = UNTRUSTED_OUTPUT;
    s->feed = u->feed;
    s->collect_to = u->tar;
    s->collect_max = TAR_MAX;
    s->prepare = begin_changes;
    s->prepare_for = u;
    s->plan.flags &= ~(uint32_t)PLAN_ONE_SHOT;
    s->plan.flags |= PLAN_CHANGES | PLAN_WRITABLE_SYSTEM; /* record all writes */
    return session_add_mount(s, source, u->program, false, e);
}

/* --- After --- */

static int unpack_untrusted_output(struct untrusted *u, struct err *e)
{
    /* Set-user-id bits are kept so that postflight sees them: only this user can enter the stage,
     * and such files do not leave it. */
    const struct tree_unpack_options options = { .keep_setid = true };
    AUTO_CLOSE int dir = openat(u->stage_fd, "output", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tree_report report;

    if (dir < 0 || lseek(u->tar, 0, SEEK_SET) < 0)
        return err_sys(e, "opening the output");
    return err_wrap(e, tree_unpack(u->tar, dir, &options, &report, e), "the output");
}

/* The manifest is moved first: a manifest without its output is harmless and easily removed. */
static int move_out(struct untrusted *u, struct str manifest, struct err *e)
{
    AUTO_CLOSE int file =
        openat(u->stage_fd, "manifest", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    char inner[64];
    int r = 0;

    if (file < 0 || write_all(file, manifest, e) < 0 || fsync(file) < 0)
        return err_sys(e, "writing the manifest");
    snprintf(inner, sizeof inner, "output/%s",
             program_base_name(UNTRUSTED_OUTPUT)); /* as it was packed */
    if (syscall(SYS_renameat2, u->stage_fd, "manifest", AT_FDCWD, u->manifest, NO_REPLACE) < 0)
        return err_sys(e, "moving the manifest to %s", u->manifest);
    if (syscall(SYS_renameat2, u->stage_fd, inner, AT_FDCWD, u->output, NO_REPLACE) < 0) {
        r = err_sys(e, "moving the output to %s", u->output);
        unlink(u->manifest);
    }
    return r;
}

int untrusted_end(struct untrusted *u, const struct session *s, int status, struct err *e)
{
    AUTO(buf_done) struct buf manifest = BUF_INIT(96 << 20), changes = BUF_INIT(HELPER_OUT_MAX);
    struct postflight p = { .stage = u->stage,
                            .program = u->o->file,
                            .preflight = &u->preflight,
                            .options = &u->o->steps,
                            .status = status };
    int r;

    if (!s->collected)
        return err_set(e, ERR_CONFLICT, "the run did not come to its end; its output is dropped");
    r = changes_end(&u->changes, &changes, e);
    p.changes = buf_str(&changes);
    if (r >= 0)
        r = unpack_untrusted_output(u, e);
    if (r >= 0)
        r = postflight_check(&p, &manifest, e);
    return r < 0 ? r : move_out(u, buf_str(&manifest), e);
}

void untrusted_done(struct untrusted *u)
{
    char *name = strrchr(u->stage, '/');
    AUTO_CLOSE int parent = -1;
    struct err e;

    changes_done(&u->changes);
    drop_fd(&u->tar);
    drop_fd(&u->feed);
    drop_fd(&u->stage_fd);
    buf_done(&u->text);
    arena_done(&u->arena);
    if (!u->stage[0])
        return;
    if (name)
        *name++ = '\0';
    parent = open(name ? u->stage[0] ? u->stage : "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0 || tree_remove(parent, name ? name : u->stage, &e) < 0)
        cli_report("note: %s could not be removed", name ? name : u->stage);
}
