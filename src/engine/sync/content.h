/* SPDX-License-Identifier: Apache-2.0 */
/* The content of one file in a stream: hashed, compared with the host's file, and written to a
 * temporary file from the first difference on. So unchanged files cost no write. */
#ifndef ENGINE_SYNC_CONTENT_H
#define ENGINE_SYNC_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/sync/sip.h"
#include "engine/sync/host.h"
#include "lib/tar/reader.h"

struct sync_content {
    uint64_t hash;            /* of all of it */
    bool same;                /* equal to the host's file */
    char temp[HOST_TEMP_MAX]; /* name of the temporary file; "": none */
    int fd;                   /* descriptor of that file; -1: none */
    int trouble;              /* 0, or the error code of a failed write; `why` has the message */
    struct err why;
};

/* Whether content is stored, in the directory of the host file. */
enum content_store { CONTENT_HASH, CONTENT_IF_DIFFERENT, CONTENT_ALWAYS };

/* Reads the current entry of t to its end. Fails only for errors of the stream; content_done()
 * removes the temporary file unless its name was cleared. */
int content_read(struct sync_content *c, struct tar_reader *t, const struct sip_key *key,
                 const struct found_file *f, enum content_store store, struct err *e);
void content_done(struct sync_content *c, const struct found_file *f);

#endif
