/* SPDX-License-Identifier: Apache-2.0 */
/* Saves the body of an answer in a file: the file is whole, or what it was before. */
#ifndef CLI_DOWNLOAD_H
#define CLI_DOWNLOAD_H

#include "cli/api_call.h"

/* Sends the request and writes the body of its answer; path "-" is stdout. A status. */
int download(struct api_call *c, const char *path);

#endif
