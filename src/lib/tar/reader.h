/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an untrusted tar archive from front to back:
 *
 *     tar_reader_init_fd(&t, fd);
 *     while ((r = tar_next(&t, &e)) > 0)
 *         while ((r = tar_data(&t, &piece, &e)) > 0)
 *             …
 *
 * Supports v7, ustar and GNU headers, pax headers for one entry (path, linkpath, size, uid, gid,
 * mtime, SCHILY.xattr.…; other keys are ignored), GNU long names and base-256 numbers. Rejects GNU
 * sparse files, global pax headers that would change entries, unsupported types, links and
 * directories with content, and archives without a proper end: at least one block of zeros, then
 * only zeros up to the end of the input. Messages begin with "entry 17 'x/y': ". */
#ifndef LIB_TAR_READER_H
#define LIB_TAR_READER_H

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/tar/tar.h"

enum {
    TAR_META_MAX = 64 << 10,   /* bytes of one extended header */
    TAR_META_COUNT = 8,        /* extended headers in front of one entry */
    TAR_TRAILER_MAX = 1 << 20, /* zeros behind the end marker */
};

/* Like read(): bytes read, 0 at the end, -1 and errno. */
typedef ssize_t tar_read_fn(void *ctx, void *p, size_t n);
/* Skips n bytes. If there are fewer, the next read returns 0. */
typedef void tar_skip_fn(void *ctx, uint64_t n);

/* About 140 KiB. Owns no resources, so it has no _done function. */
struct tar_reader {
    struct tar_entry entry; /* the current one, after tar_next() returned 1 */
    uint64_t number;        /* of the current entry, from 1 */
    uint64_t at;            /* offset of its content in the input */

    tar_read_fn *read_;
    tar_skip_fn *skip_;
    void *ctx_;
    int fd_;
    bool is_tar_;    /* a valid header was read */
    unsigned known_; /* KNOWN_…: members of entry from extended headers */
    uint64_t taken_; /* bytes of the input that were read or skipped */
    uint64_t left_;  /* content of the entry that tar_data() has not returned */
    size_t padding_; /* behind it */
    size_t at_, n_;  /* the unread part of in_ */
    char in_[TREE_CHUNK];
    char meta_[TAR_META_MAX];
    struct str pax_; /* the records of the current entry's pax header, in meta_ */
};

void tar_reader_init(struct tar_reader *t, tar_read_fn *read, void *ctx);
void tar_reader_init_fd(struct tar_reader *t, int fd); /* the caller keeps fd */

/* A part of a file, independent of the offset of its descriptor. */
struct tar_range {
    int fd;
    uint64_t at, end;
};
ssize_t tar_range_read(void *range, void *p, size_t n); /* a tar_read_fn */
/* Skips content without reading it. The range must outlive the reader. */
void tar_reader_init_range(struct tar_reader *t, struct tar_range *range);

/* Advances to the next entry and skips unread content: 1, or 0 at the end of the archive. The input
 * is then read to its end, so that the writer of a pipe does not get SIGPIPE. After an error the
 * reader must not be used. */
int tar_next(struct tar_reader *t, struct err *e);

/* The next piece of the current entry's content, borrowed until the next call: 1, or 0 at the end
 * of the content. */
int tar_data(struct tar_reader *t, struct str *ret, struct err *e);

/* The current entry's next extended attribute ("SCHILY.xattr." in its pax header), borrowed until
 * the next entry: 1, or 0. *rest begins as tar_attributes(). */
struct str tar_attributes(const struct tar_reader *t);
int tar_attribute(struct str *rest, struct str *ret_name, struct str *ret_value);

/* Prefixes an error of the current entry with "entry 17 'x/y': " if r < 0; returns r. */
int tar_wrap(const struct tar_reader *t, int r, struct err *e);

#endif
