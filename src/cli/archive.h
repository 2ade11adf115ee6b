/* SPDX-License-Identifier: Apache-2.0 */
/* A directory or an archive of this user's as one plain tar stream, to be sent. */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include <sys/types.h>

#include "base/err.h"
#include "lib/tar/decompress.h"

struct archive {
    int fd;       /* the file or directory */
    int stream;   /* read from here: fd, or the pipe of a child */
    pid_t packer; /* of a directory */
    struct decompress decompress;
};
#define ARCHIVE_NONE ((struct archive){ .fd = -1, .stream = -1, .decompress = DECOMPRESS_NONE })

/* "-" is stdin. A child packs a directory; another child decompresses a compressed archive. */
int archive_open(struct archive *a, const char *path, struct err *e);
/* An http_client_more_fn: a stream that breaks off is an error, never an end. */
int archive_more(void *archive, char *out, size_t cap, struct err *e);
void archive_done(struct archive *a);

#endif
