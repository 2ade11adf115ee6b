/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = { COLUMN("KEY", "key") };
static const struct answer_kind kind = { "keys", "key", columns, COUNT_OF(columns) };

static int run_rotate(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/secrets/rotate-key",
                                          .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_secrets_rotate_key = {
    .name = "secrets rotate-key",
    .arguments = "",
    .summary = "seal the secrets in the daemon's store with a new key",
    .text =
        "Environment variables of sandboxes and processes, held calls and settings are sealed "
        "with\n"
        "a key in a file of its own (secrets/key in the state directory). This makes a new key,\n"
        "seals everything with it, and removes the old key from the file. Sandboxes, tokens and\n"
        "links stay valid. Older backups need the older key.\n"
        "\n"
        "  sandboxer secrets rotate-key\n",
    .run = run_rotate,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};
