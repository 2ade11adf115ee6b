/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answer to a reload of profiles, alone or with the daemon's other files. */
#ifndef CLI_RELOAD_H
#define CLI_RELOAD_H

#include "cli/api_call.h"

/* As verb_request.print … */
int reload_print(const struct api_call *c, const void *options, char **argv);
/* … and verb_request.finish: EXIT_REPORTED if a file was not taken. */
int reload_finish(const struct api_call *c, char **argv);

#endif
