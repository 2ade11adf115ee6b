/* SPDX-License-Identifier: Apache-2.0 */
/* A directory against its signed manifest. */
#include <limits.h>
#include <stdio.h>

#include "base/own.h"
#include "cli/run/helper.h"
#include "cli/state_dir.h"
#include "cli/verbs/verbs.h"

struct verify_options {
    struct common common;
    const char *key;
};

static const struct option_spec options[] = {
    { "key", 0, "FILE", "the public key (default: seal.pub in the state directory)",
      .at = offsetof(struct verify_options, key), .complete = COMPLETE_FILE },
};

static int own_key(char *out, size_t cap, struct err *e)
{
    char state[PATH_MAX];
    int r = state_dir_path(state, sizeof state, e);

    if (r >= 0 && snprintf(out, cap, "%s/seal.pub", state) >= (int)cap)
        r = err_set(e, ERR_TOO_BIG, "the state directory's path is too long");
    return r;
}

static int run_manifest_verify(const struct verb *v, int argc, char **argv)
{
    struct verify_options o = { 0 };
    char key[PATH_MAX];
    struct err e;
    int status, r = 0;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (!o.key)
        r = own_key(key, sizeof key, &e);
    if (r >= 0)
        r = helper_show(
            HELPER_SEAL,
            (const char *const[]){ "verify", o.key ? o.key : key, argv[0], argv[1], NULL }, &status,
            &e);
    if (r < 0)
        return verb_failed(v, "%s", e.msg);
    return status;
}

const struct verb verb_verify = {
    .name = "verify",
    .arguments = "MANIFEST DIR",
    .summary = "compare a directory with the signed manifest of a run",
    .text = "Checks the signature, every hash, mode and link, and that nothing is missing or\n"
            "added; a line for each difference. On another machine, pass a copy of seal.pub with\n"
            "--key.\n"
            "\n"
            "Exit status: 0 if everything is as signed; 1 if files differ; 2 if FILE is not a\n"
            "manifest; 3 if a file or the key does not exist; 5 if the signature is not by this\n"
            "key.\n"
            "\n"
            "  sandboxer verify job.py.out.manifest.json job.py.out\n",
    OPTIONS(options),
    .run = run_manifest_verify,
    .flags = 0,
    .n_arguments = { 2, 2 },
    .complete = COMPLETE_FILE,
};
