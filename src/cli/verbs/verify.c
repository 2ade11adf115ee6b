/* SPDX-License-Identifier: Apache-2.0 */
/* A directory against its signed manifest. */
#include <limits.h>
#include <stdio.h>

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

static int run_manifest_verify(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct verify_options *o = options_;
    char state[PATH_MAX], key[PATH_MAX];
    struct err e;
    int status, r = o->key ? 0 : state_dir_path(state, sizeof state, &e);

    if (r >= 0 && !o->key && snprintf(key, sizeof key, "%s/seal.pub", state) >= (int)sizeof key)
        r = state_dir_fail_size(state, &e);
    if (r >= 0)
        r = helper_show(
            HELPER_SEAL,
            (const char *const[]){ "verify", o->key ? o->key : key, argv[0], argv[1], NULL },
            &status, &e);
    return r < 0 ? api_call_failed(c, &e) : status;
}

const struct verb verb_verify = {
    .name = "verify",
    ARGUMENTS("MANIFEST DIR", 2, 2, COMPLETE_FILE),
    .summary = "compare a directory with the signed manifest of a run",
    .text = "Checks the signature, every hash, mode and link, and that nothing is missing or\n"
            "added; a line for each difference. On another machine, pass a copy of seal.pub with\n"
            "--key.\n"
            "\n"
            "Exit status: 0 if everything is as signed; 1 if files differ; 2 if MANIFEST is\n"
            "not a manifest; 3 if a file or the key does not exist; 5 if the signature is not by\n"
            "this key.\n"
            "\n"
            "  sandboxer verify job.py.out.manifest.json job.py.out\n",
    OPTIONS(options, struct verify_options),
    .run = run_manifest_verify,
};
