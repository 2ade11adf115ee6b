/* SPDX-License-Identifier: Apache-2.0 */
/* Trees to and from a sandbox, as tar streams. Packing and unpacking are done by a child, so that
 * the stream can go through the connection meanwhile; unpacking in one that can reach nothing but
 * the directory it unpacks into. Each function returns an exit status. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "cli/api_call.h"
#include "cli/copy_place.h"

struct copy {
    const struct verb *verb;
    const struct common *common;
    const char *user; /* whose rights count in the sandbox; NULL: root's */
};

int copy_in(const struct copy *c, const char *source, const struct copy_end *to, bool several);
int copy_in_stream(const struct copy *c, const struct copy_end *to); /* from stdin */
int copy_out(const struct copy *c, const struct copy_end *from, const char *target, bool several);
int copy_out_stream(const struct copy *c, const struct copy_end *from); /* to stdout */

#endif
