/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/token.h"

#include <stddef.h>

const char *const token_verb_names[] = {
    [VERB_READ] = "read",   [VERB_CREATE] = "create",   [VERB_EXEC] = "exec",
    [VERB_FILES] = "files", [VERB_EXTEND] = "extend",   [VERB_DESTROY] = "destroy",
    [VERB_ADMIN] = "admin", [TOKEN_VERB_COUNT_] = NULL,
};
