/* What `git status --porcelain=v2 --branch -z` says, as Daytona's clients want it. It comes from a
 * sandbox: what is no such thing is passed over. */
#ifndef API_DAYTONA_GIT_STATUS_H
#define API_DAYTONA_GIT_STATUS_H

#include "json/writer.h"

void git_status_write(struct json_writer *w, struct str text);

#endif
