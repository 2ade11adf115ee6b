/* The file that a snapshot travels in: zstd around this, numbers little endian.
 *
 *     ARCHIVE_MAGIC
 *     u32 size, manifest             JSON; what it says is the control plane's matter
 *     'L' measure, records           a layer: as of layers/measure.h, "sha256-…"; then its tree
 *     …
 *     'Z' sha256                     of all bytes before
 *
 * A tree is a list of records, depth first, from its root on. Names are single components, so there
 * is nothing that could lead out of it.
 *
 *     'd' name                       goes into a directory
 *     '.' attributes, extended       leaves it; of the root: the end of the layer
 *     'f' name, attributes, link, extended, u64 size, { u64 at, u64 n, bytes }…, u64 0, u64 0
 *     'l' name, attributes, link, text     a symbolic link
 *     'p' 's' 'w' name, attributes, link   a FIFO, a socket, what says "removed"
 *     'h' name, link                 another name of the one with that number
 *
 * name, text: u16 size, bytes. attributes: u32 mode, uid, gid; mtime, atime: u64 seconds, u32
 * nanoseconds. link: u64, 0 for what has one name. extended: u16 count, { name, u32 size, bytes }…
 *
 * Everything read from one is hostile: a name, a size or a number that is out of bounds ends the
 * import, and nothing of it stays. */
#ifndef LAYERS_ARCHIVE_H
#define LAYERS_ARCHIVE_H

#include "crypto/hash.h"
#include "layers/keeper.h"
#include "layers/measure.h"

#define ARCHIVE_MAGIC "sandboxer snapshot 1\n"

enum {
    ARCHIVE_MANIFEST_MAX = 1 << 20,
    ARCHIVE_MEASURE = sizeof "sha256-" - 1 + 2 * CRYPTO_SHA256_SIZE, /* bytes of one */
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

/* To `fd`, which stays the caller's. */
struct archive_out *archive_out_new(struct keeper *k, int fd);
void archive_out_free(struct archive_out *o);
int archive_put(struct archive_out *o, const void *p, size_t n, struct err *e);
int archive_put_number(struct archive_out *o, uint64_t v, size_t bytes, struct err *e);
int archive_put_text(struct archive_out *o, const char *text, struct err *e); /* u16 size, bytes */
int archive_put_tree(struct archive_out *o, int tree, struct err *e);
int archive_finish(struct archive_out *o, struct err *e);

/* --- reading --- */

struct archive_in;

struct archive_in *archive_in_new(struct keeper *k, int fd);
void archive_in_free(struct archive_in *in);
int archive_get(struct archive_in *in, void *p, size_t n, struct err *e);
int archive_get_number(struct archive_in *in, size_t bytes, uint64_t *ret, struct err *e);
/* Ended by NUL; -ERR_INVALID where it holds one, or is longer than that. */
int archive_get_text(struct archive_in *in, char *out, size_t cap, struct err *e);
/* Into an empty directory; `links` is another one on the same file system. tree < 0: only reads. */
int archive_get_tree(struct archive_in *in, int tree, int links, struct err *e);
/* What follows 'Z', and then nothing. */
int archive_get_end(struct archive_in *in, struct err *e);

struct keeper *archive_keeper(const struct archive_in *in);

#endif
