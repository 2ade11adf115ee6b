/* A directory against the manifest of what was in it. */
#ifndef SEAL_VERIFY_H
#define SEAL_VERIFY_H

#include <stdio.h>

#include "seal/files.h"

/* Prints a line for each file that is missing, is not in the manifest, or differs: how many.
 * -ERR_INVALID for a text that is no manifest. */
int seal_verify(struct str manifest, const struct seal_files *files, FILE *to, struct err *e);

#endif
