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
#include "cli/verbs.h"
#include "cli/write.h"

/* Everything of the answer's body. */
static int copy(struct call *c, int to)
{
    struct str piece;
    struct err e;
    int status = 0;

    while (call_next(c, &piece, &status) > 0) {
        if (write_all(to, piece, &e) < 0)
            return call_failed(c, &e);
        progress_moved(piece.n);
    }
    return status;
}

/* Beside the file, then in its place: there is never half a backup under its name. */
static int save(struct call *c, const char *path)
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
        return call_failed(c, &e);
    }
    status = copy(c, to);
    if (status == 0 && (fsync(to) < 0 || rename(part, path) < 0)) {
        (void)err_sys(&e, "writing %s", path);
        status = call_failed(c, &e);
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
    AUTO(call_done) struct call c;
    char name[PATH_MAX];
    int status;

    if (snprintf(name, sizeof name, "%s.key", path) >= (int)sizeof name)
        return verb_misused(v, "the path is too long");
    call_init(&c, v, common, "GET");
    call_path(&c, "/v1/secrets/key");
    status = call_open(&c);
    return status ? status : save(&c, name);
}

static int run(const struct verb *v, int argc, char **argv)
{
    struct backup_options o = { 0 };
    AUTO(call_done) struct call c;
    bool to_stdout;
    int status;

    call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    to_stdout = strcmp(argv[0], "-") == 0;
    if (to_stdout && isatty(STDOUT_FILENO) == 1)
        return verb_misused(v, "a backup is not for a terminal: redirect it, or name a file");
    if (to_stdout && o.with_key)
        return verb_misused(v, "--with-key saves a second file: name a file");
    call_path(&c, "/v1/backup");
    c.doing = "saving";
    status = call_open(&c);
    if (status)
        return status;
    status = to_stdout ? copy(&c, STDOUT_FILENO) : save(&c, argv[0]);
    return status || !o.with_key ? status : save_key(v, &o.common, argv[0]);
}

const struct verb verb_backup = {
    .name = "backup",
    .arguments = "FILE",
    .summary = "save a consistent copy of the daemon's store",
    .text = "While the daemon goes on working. '-' is stdout. An existing file is replaced when "
            "the copy\n"
            "is complete, and only then. Secrets in it are sealed with a key that is not in it;\n"
            "--with-key saves that key as FILE.key: keep it apart.\n"
            "\n"
            "  sandboxer backup sandboxer-$(date +%F).db\n",
    .options = backup_options,
    .n_options = COUNT_OF(backup_options),
    .run = run,
    .flags = VERB_REMOTE,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};
