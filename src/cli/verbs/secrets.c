/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct column columns[] = { COLUMN("KEY", "key") };
static const struct answer_kind kind = KIND("keys", "key", columns);

const struct verb verb_secrets_rotate_key = {
    .name = "secrets rotate-key",
    .summary = "seal the secrets in the daemon's store with a new key",
    .text = "Environment variables of sandboxes and processes, held calls and settings are\n"
            "sealed with a key in a file of its own (secrets/key in the state directory). This\n"
            "makes a new key, seals everything with it, and removes the old key from the file.\n"
            "Sandboxes, tokens and links stay valid. Older backups need the older key.\n"
            "\n"
            "  sandboxer secrets rotate-key\n",
    REQUEST("POST", "/v1/secrets/rotate-key", .kind = &kind),
};
