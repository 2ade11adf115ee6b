/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/download.h"
#include "cli/verbs/verbs.h"

struct backup_options {
    struct common common;
    bool with_key;
};

static const struct option_spec backup_options[] = {
    { "with-key", 0, NULL, "also save the key of the secrets in it, as FILE.key",
      .at = offsetof(struct backup_options, with_key) },
};

static int save_key(const struct api_call *saved, const char *path)
{
    AUTO(api_call_done) struct api_call c;
    char name[PATH_MAX];

    api_call_init(&c, saved->verb, saved->common, "GET");
    if (snprintf(name, sizeof name, "%s.key", path) >= (int)sizeof name)
        return verb_misused(c.verb, "%.80s…: the path has more than %zu bytes", path,
                            sizeof name - 5);
    api_call_path(&c, "/v1/secrets/key");
    return download(&c, name);
}

static int run_backup(struct api_call *c, void *options, int argc, char **argv)
{
    const struct backup_options *o = options;
    bool to_stdout = strcmp(argv[0], "-") == 0;
    int status;

    if (to_stdout && isatty(STDOUT_FILENO) == 1)
        return verb_misused(c->verb, "a backup is not for a terminal: redirect it, or name a file");
    if (to_stdout && o->with_key)
        return verb_misused(c->verb, "--with-key saves a second file: name a file");
    api_call_path(c, "/v1/backup");
    c->doing = "saving";
    status = download(c, argv[0]);
    return status || !o->with_key ? status : save_key(c, argv[0]);
}

const struct verb verb_backup = {
    .name = "backup",
    ARGUMENTS("FILE", 1, 1, COMPLETE_FILE),
    .summary = "save a consistent copy of the daemon's store",
    .text = "The daemon keeps working meanwhile. '-' is stdout. An existing file is replaced\n"
            "when the copy is complete, and only then. Secrets in it are sealed with a key that\n"
            "is not part of it; --with-key saves that key as FILE.key: store it separately.\n"
            "\n"
            "  sandboxer backup sandboxer-$(date +%F).db\n",
    OPTIONS(backup_options, struct backup_options),
    .run = run_backup,
    .flags = VERB_REMOTE,
};
