/* Reads a tar archive front to back, trusting no byte of it:
 *
 *     tar_reader_init_fd(&t, fd);
 *     while ((r = tar_next(&t, &e)) > 0)
 *         while ((r = tar_data(&t, &piece, &e)) > 0)
 *             …
 *
 * Understood are v7, ustar and GNU headers, pax headers for one entry (path, linkpath, size, uid,
 * gid, mtime, SCHILY.xattr.…; other keys are ignored), GNU long names and base-256 numbers. Refused
 * are GNU sparse files, global pax headers that would change entries, types nobody here can store,
 * links and directories that carry content, and an archive that does not end as it should: at least
 * one block of zeros, then nothing but zeros up to the end of the input. Messages begin with "entry
 * 17 'x/y':
 * ". */
#ifndef TREE_READER_H
#define TREE_READER_H

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "tree/tar.h"

enum {
    TAR_META_MAX = 64 << 10,   /* bytes of one extended header */
    TAR_META_COUNT = 8,        /* extended headers in front of one entry */
    TAR_TRAILER_MAX = 1 << 20, /* zeros behind the end */
};

/* Like read(): bytes read, 0 at the end, -1 and errno. */
typedef ssize_t tar_read_fn(void *ctx, void *p, size_t n);
/* Goes past n bytes. If there are fewer, the next read finds the end. */
typedef void tar_skip_fn(void *ctx, uint64_t n);

/* About 140 KiB. It owns nothing, so there is nothing to release. */
struct tar_reader {
    struct tar_entry entry; /* the current one, after tar_next() returned 1 */
    uint64_t number;        /* of the current entry, from 1 */
    uint64_t at;            /* where its content begins, counted from the start of the input */

    tar_read_fn *read_;
    tar_skip_fn *skip_;
    void *ctx_;
    int fd_;
    bool is_tar_;    /* a header was read, so this is an archive */
    unsigned known_; /* which members of entry an extended header has set */
    uint64_t taken_; /* bytes of the input that were read or gone past */
    uint64_t left_;  /* content of the entry that was not handed out */
    size_t padding_; /* behind it */
    size_t at_, n_;  /* the unread part of in_ */
    char in_[TREE_CHUNK];
    char meta_[TAR_META_MAX];
    struct str pax_; /* the records of the current entry's pax header, in meta_ */
};

void tar_reader_init(struct tar_reader *t, tar_read_fn *read, void *ctx);
void tar_reader_init_fd(struct tar_reader *t, int fd); /* fd stays the caller's */

/* A part of a file, wherever the offset of its descriptor is. */
struct tar_range {
    int fd;
    uint64_t at, end;
};
ssize_t tar_range_read(void *range, void *p, size_t n); /* a tar_read_fn */
/* Content that nobody asks for is not read. The range stays the caller's. */
void tar_reader_init_range(struct tar_reader *t, struct tar_range *range);

/* Goes to the next entry, past content that was not read: 1, or 0 at the end of the archive. The
 * input is then read to its end, so that a program that writes into the other end of a pipe is not
 * cut off. Messages say which entry they are about. After an error the reader is of no more use. */
int tar_next(struct tar_reader *t, struct err *e);

/* The next piece of the current entry's content, borrowed until the next call: 1, or 0 when all of
 * it was handed out. */
int tar_data(struct tar_reader *t, struct str *ret, struct err *e);

/* The current entry's next extended attribute ("SCHILY.xattr." in its pax header), borrowed until
 * the next entry: 1, or 0. *rest begins as tar_attributes(). */
struct str tar_attributes(const struct tar_reader *t);
int tar_attribute(struct str *rest, struct str *ret_name, struct str *ret_value);

/* Prefixes "entry 17 'x/y': " if r < 0; returns r. For what went wrong with the current entry. */
int tar_wrap(const struct tar_reader *t, int r, struct err *e);

#endif
