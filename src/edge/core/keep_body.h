/* SPDX-License-Identifier: Apache-2.0 */
/* Appends pieces of a request body to a file. */
#ifndef EDGE_CORE_KEEP_BODY_H
#define EDGE_CORE_KEEP_BODY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/config/config.h"

/* -ERR_TOO_BIG if the file would exceed images.max_bytes, or leave less than images.free_min free
 * on the disk. */
int store_body_piece(int fd, uint64_t *size, const struct config *config, struct str data,
                     struct err *e);

#endif
