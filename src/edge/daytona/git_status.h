/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the output of `git status --porcelain=v2 --branch -z` to Daytona's JSON. The output is
 * untrusted (it comes from a sandbox): unknown records are ignored. */
#ifndef EDGE_DAYTONA_GIT_STATUS_H
#define EDGE_DAYTONA_GIT_STATUS_H

#include "lib/json/writer.h"

void git_status_write(struct json_writer *w, struct str text);

#endif
