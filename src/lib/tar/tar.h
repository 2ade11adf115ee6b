/* SPDX-License-Identifier: Apache-2.0 */
/* The tar format, block by block: decodes ustar, pax and GNU headers into structs, and encodes
 * ustar and pax headers. Input and output are in reader.h and pack.h. */
#ifndef LIB_TAR_TAR_H
#define LIB_TAR_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/tar/tree.h"

enum {
    TAR_BLOCK = 512,
    /* The most that tar_encode() writes: a pax header, its records, a ustar header. */
    TAR_HEAD_MAX = 2 * TAR_BLOCK + 2 * TREE_PATH_MAX + TAR_BLOCK,
};

enum tar_type {
    TAR_FILE,
    TAR_HARDLINK,
    TAR_SYMLINK,
    TAR_CHAR,
    TAR_BLOCKDEV,
    TAR_DIR,
    TAR_FIFO,
    TAR_TYPE_COUNT_,
};

/* One member of an archive, with the values of its extended headers. */
struct tar_entry {
    enum tar_type type;
    mode_t mode; /* the lower twelve bits */
    uid_t uid;
    gid_t gid;
    uint64_t size; /* bytes of content; 0 unless TAR_FILE */
    struct timespec mtime;
    uint32_t major, minor;    /* of devices */
    char path[TREE_PATH_MAX]; /* as in the archive: not checked for "..", … */
    char link[TREE_PATH_MAX]; /* target of a link, else "" */
};

/* One header block, decoded but not validated. The slices point into the block. */
struct tar_header {
    char type; /* '0', 'x', 'L', … */
    struct str name, prefix, link;
    int64_t mode, uid, gid, size, mtime, major, minor;
};

/* -ERR_INVALID for a wrong checksum or an invalid number. */
int tar_header_parse(const char block[static TAR_BLOCK], struct tar_header *ret, struct err *e);

/* A numeric header field: octal digits between blanks, or GNU's base 256. An empty one is 0. */
int tar_number(struct str field, int64_t *ret, struct err *e);

/* Cuts the first record ("27 path=some/where\n") off the content of a pax header: 1, or 0 if the
 * content is empty. */
int tar_pax_next(struct str *rest, struct str *ret_key, struct str *ret_value, struct err *e);

/* A pax time: decimal seconds with an optional sign and fraction. */
bool tar_pax_time(struct str s, struct timespec *ret);

/* For messages: "file", "symbolic link", … */
const char *tar_type_name(enum tar_type type);

bool tar_is_zero(const char *p, size_t n);

/* Bytes that fill the last block behind n bytes of content. */
size_t tar_padding(uint64_t n);

/* Writes the header blocks of an entry (plain ustar if all values fit, else with a pax header in
 * front) and returns their size, a multiple of TAR_BLOCK. Fractions of seconds are left out,
 * because they would cost a kilobyte per entry. */
size_t tar_encode(const struct tar_entry *entry, char out[static TAR_HEAD_MAX]);

#endif
