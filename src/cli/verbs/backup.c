/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/progress.h"
#include "cli/verbs/verbs.h"
#include "base/io.h"

/* Everything of the answer's body. */
static int copy_backup(struct api_call *c, int to)
{
    struct str piece;
    struct err e;
    int status = 0;

    while (api_call_next(c, &piece, &status) > 0) {
        if (write_all(to, piece, &e) < 0)
            return api_call_failed(c, &e);
        progress_moved(piece.n);
    }
    return status;
}

/* Writes a temporary file and renames it: a partial backup never has the final name. */
static int save_backup(struct api_call *c, const char *path)
{
    AUTO_CLOSE int to = -1;
    char part[PATH_MAX];
    struct err e;
    int status;

    if (snprintf(part, sizeof part, "%s.part-%d", path, (int)getpid()) >= (int)sizeof part)
        return verb_misused(c->verb, "the path is too long");
    to = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0) {
        (void)err_sys(&e, "making %s", part);
        return api_call_failed(c, &e);
    }
    status = copy_backup(c, to);
    if (status == 0 && (fsync(to) < 0 || rename(part, path) < 0)) {
        (void)err_sys(&e, "writing %s", path);
        status = api_call_failed(c, &e);
    }
    if (status)
        unlink(part);
    return status;
}

struct backup_options {
    struct common common;
    bool with_key;
};

static const struct option_spec backup_options[] = {
    { "with-key", 0, NULL, "also save the key of the secrets in it, as FILE.key",
      .kind = OPTION_FLAG, .at = offsetof(struct backup_options, with_key) },
};

static int save_key(const struct verb *v, struct common *common, const char *path)
{
    AUTO(api_call_done) struct api_call c;
    char name[PATH_MAX];
    int status;

    if (snprintf(name, sizeof name, "%s.key", path) >= (int)sizeof name)
        return verb_misused(v, "the path is too long");
    api_call_init(&c, v, common, "GET");
    api_call_path(&c, "/v1/secrets/key");
    status = api_call_open(&c);
    return status ? status : save_backup(&c, name);
}

static int run_backup(const struct verb *v, int argc, char **argv)
{
    struct backup_options o = { 0 };
    AUTO(api_call_done) struct api_call c;
    bool to_stdout;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    to_stdout = strcmp(argv[0], "-") == 0;
    if (to_stdout && isatty(STDOUT_FILENO) == 1)
        return verb_misused(v, "a backup is not for a terminal: redirect it, or name a file");
    if (to_stdout && o.with_key)
        return verb_misused(v, "--with-key saves a second file: name a file");
    api_call_path(&c, "/v1/backup");
    c.doing = "saving";
    status = api_call_open(&c);
    if (status)
        return status;
    status = to_stdout ? copy_backup(&c, STDOUT_FILENO) : save_backup(&c, argv[0]);
    return status || !o.with_key ? status : save_key(v, &o.common, argv[0]);
}

const struct verb verb_backup = {
    .name = "backup",
    .arguments = "FILE",
    .summary = "save a consistent copy of the daemon's store",
    .text = "The daemon keeps working meanwhile. '-' is stdout. An existing file is replaced\n"
            "when the copy is complete, and only then. Secrets in it are sealed with a key that\n"
            "is not part of it; --with-key saves that key as FILE.key: store it separately.\n"
            "\n"
            "  sandboxer backup sandboxer-$(date +%F).db\n",
    OPTIONS(backup_options),
    .run = run_backup,
    .flags = VERB_REMOTE,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_FILE,
};
