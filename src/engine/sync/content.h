/* The content of one file in a stream: hashed, compared with the host's file, and written to a
 * temporary one from the first difference on. So what did not change costs no write. */
#ifndef MIRROR_CONTENT_H
#define MIRROR_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "mirror/sip.h"
#include "mirror/host.h"
#include "tree/reader.h"

struct content {
    uint64_t hash;            /* of all of it */
    bool same;                /* the host's file has the same */
    char temp[HOST_TEMP_MAX]; /* where it was written; "": nowhere */
    int fd;                   /* that file, open; -1 */
    int trouble;              /* 0, or why it could not be written, in words: why */
    struct err why;
};

/* Whether content is stored, in the directory of what was found. */
enum content_store { CONTENT_HASH, CONTENT_IF_DIFFERENT, CONTENT_ALWAYS };

/* Reads the current entry of t to its end. Fails for the stream's faults only; content_done()
 * removes the temporary file unless its name was cleared. */
int content_read(struct content *c, struct tar_reader *t, const struct sip_key *key,
                 const struct found *f, enum content_store store, struct err *e);
void content_done(struct content *c, const struct found *f);

#endif
