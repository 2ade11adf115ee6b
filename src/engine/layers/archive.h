/* SPDX-License-Identifier: Apache-2.0 */
/* The file format of an exported snapshot: zstd around the following; numbers are little endian.
 *
 *     ARCHIVE_MAGIC
 *     u32 size, manifest             JSON; interpreted by the control plane
 *     'L' digest, records            a layer: its digest (digest.h) as "sha256-…", its tree
 *     …
 *     'Z' sha256                     of all bytes before
 *
 * A tree is a list of records, depth first, starting at its root. Names are single components, so
 * no record can refer to anything outside the tree.
 *
 *     'd' name                       enters a directory
 *     '.' attributes, extended       leaves it; at the root: the end of the layer
 *     'f' name, attributes, link, extended, u64 size, { u64 at, u64 n, bytes }…, u64 0, u64 0
 *     'l' name, attributes, link, text     a symbolic link
 *     'p' 's' 'w' name, attributes, link   a FIFO, a socket, a whiteout
 *     'h' name, link                 another name of the file with that link number
 *
 * name, text: u16 size, bytes. attributes: u32 mode, uid, gid; mtime, atime: u64 seconds, u32
 * nanoseconds. link: u64, 0 for a file with one name. extended: u16 count, { name, u32 size, bytes
 * }…
 *
 * The reader treats the file as hostile: a name, size or number out of bounds ends the import, and
 * nothing of it stays. */
#ifndef ENGINE_LAYERS_ARCHIVE_H
#define ENGINE_LAYERS_ARCHIVE_H

#include "lib/crypto/hash.h"
#include "engine/layers/worker.h"
#include "engine/layers/digest.h"

#define ARCHIVE_MAGIC "sandboxer snapshot 1\n"

enum {
    ARCHIVE_MANIFEST_MAX = 1 << 20,
    ARCHIVE_DIGEST_SIZE = sizeof "sha256-" - 1 + 2 * CRYPTO_SHA256_SIZE, /* bytes of a digest */
    ARCHIVE_LAYER = 'L',
    ARCHIVE_END = 'Z',
    ARCHIVE_DIR = 'd',
    ARCHIVE_LEAVE = '.',
    ARCHIVE_FILE = 'f',
    ARCHIVE_SYMLINK = 'l',
    ARCHIVE_FIFO = 'p',
    ARCHIVE_SOCKET = 's',
    ARCHIVE_WHITEOUT = 'w',
    ARCHIVE_LINK = 'h',
};

/* --- writing --- */

struct archive_out;

/* Writes to `fd`, which stays the caller's. After a failed write, whose error is in `e`, nothing more
 * is written, and all functions return that error. */
struct archive_out *archive_out_new(struct layer_worker *k, int fd, struct err *e);
void archive_out_free(struct archive_out *o);
int archive_write(struct archive_out *o, const void *p, size_t n);
int archive_write_number(struct archive_out *o, uint64_t v, size_t bytes);
int archive_write_tree(struct archive_out *o, int tree);
int archive_finish(struct archive_out *o);

/* --- reading --- */

struct archive_in;

struct archive_in *archive_in_new(struct layer_worker *k, int fd);
void archive_in_free(struct archive_in *in);
int archive_read(struct archive_in *in, void *p, size_t n, struct err *e);
int archive_read_number(struct archive_in *in, size_t bytes, uint64_t *ret, struct err *e);
uint64_t archive_in_bytes(const struct archive_in *in); /* of files so far, without holes */
/* Unpacks a tree into an empty directory; `links` is another directory on the same file system.
 * tree < 0: reads and discards. */
int archive_read_tree(struct archive_in *in, int tree, int links, struct err *e);
/* Checks the hash that follows 'Z', and that nothing follows it. */
int archive_read_end(struct archive_in *in, struct err *e);

#endif
