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

static int run(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(call_done) struct call c;
    bool to_stdout;
    int status;

    call_init(&c, v, &common, "GET");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    to_stdout = strcmp(argv[0], "-") == 0;
    if (to_stdout && isatty(STDOUT_FILENO) == 1)
        return verb_misused(v, "a backup is not for a terminal: redirect it, or name a file");
    call_path(&c, "/v1/backup");
    c.doing = "saving";
    status = call_open(&c);
    if (status)
        return status;
    return to_stdout ? copy(&c, STDOUT_FILENO) : save(&c, argv[0]);
}

const struct verb verb_backup = {
    .name = "backup",
    .arguments = "FILE",
    .summary = "save a consistent copy of the daemon's store",
    .text = "While the daemon goes on working. '-' is stdout. An existing file is replaced when "
            "the copy\n"
            "is complete, and only then.\n"
            "\n"
            "  sandboxer backup sandboxer-$(date +%F).db\n",
    .run = run,
    .flags = VERB_REMOTE,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};
