/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a directory with its signed manifest. */
#ifndef ENGINE_ATTEST_VERIFY_H
#define ENGINE_ATTEST_VERIFY_H

#include <stdio.h>

#include "engine/attest/files.h"

/* Prints a line for each file that is missing, not in the manifest, or different; returns their
 * number. -ERR_INVALID if the text is not a manifest. */
int attest_verify(struct str manifest, const struct attest_files *files, FILE *to, struct err *e);

#endif
