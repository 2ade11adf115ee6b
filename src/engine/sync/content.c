/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/content.h"

#include <fcntl.h>
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/tar/at.h"

struct content_reader {
    struct sync_content *c;
    const struct found_file *f;
    enum content_store store;
    int host; /* the host's file while it is equal; -1 */
    struct sip hash;
    struct sip_key key;
};

static void stop_writing(struct sync_content *c, int r)
{
    if (c->trouble == 0)
        c->trouble = r;
    drop_fd(&c->fd);
}

/* Copies the equal beginning from the host's file; the hash detects changes since the
 * comparison. */
static int copy_start(struct content_reader *rd, struct err *e)
{
    uint64_t left = rd->hash.n_, at = 0;
    char chunk[TREE_CHUNK];
    struct sip copied;

    sip_init(&copied, &rd->key);
    while (left > 0) {
        size_t n = left < sizeof chunk ? (size_t)left : sizeof chunk;
        int r;

        if (pread_full(rd->host, chunk, n, (off_t)at) != (ssize_t)n)
            break;
        r = at_write(rd->c->fd, chunk, n, e);
        if (r < 0)
            return r;
        sip_add(&copied, (struct str){ chunk, n });
        at += n;
        left -= n;
    }
    if (!sip_eq(&copied, &rd->hash))
        return err_set(e, ERR_BUSY, "the file changed on the host while it was compared");
    return 0;
}

static void start_writing(struct content_reader *rd)
{
    struct sync_content *c = rd->c;
    int r;

    if (rd->store == CONTENT_HASH)
        return;
    r = host_temp_name(c->temp, &c->why);
    if (r >= 0) {
        c->fd = host_open(rd->f->parent, c->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        r = c->fd < 0 ? err_sys(&c->why, "creating a temporary file beside it") : 0;
    }
    if (c->fd < 0)
        c->temp[0] = '\0';
    if (r >= 0 && rd->host >= 0)
        r = copy_start(rd, &c->why);
    if (r < 0)
        stop_writing(c, r);
}

static void add_content_piece(struct content_reader *rd, struct str piece)
{
    char chunk[TREE_CHUNK];
    int r = 0;

    if (rd->host >= 0 &&
        (pread_full(rd->host, chunk, piece.n, (off_t)rd->hash.n_) != (ssize_t)piece.n ||
         memcmp(chunk, piece.p, piece.n) != 0)) {
        start_writing(rd);
        drop_fd(&rd->host);
    }
    if (rd->c->fd >= 0)
        r = at_write(rd->c->fd, piece.p, piece.n, &rd->c->why);
    if (r < 0)
        stop_writing(rd->c, r);
    sip_add(&rd->hash, piece);
}

int content_read(struct sync_content *c, struct tar_reader *t, const struct sip_key *key,
                 const struct found_file *f, enum content_store store, struct err *e)
{
    struct content_reader rd = { .c = c, .f = f, .store = store, .host = -1, .key = *key };
    struct str piece;
    int r;

    sip_init(&rd.hash, key);
    if (f->kind == KIND_FILE && (uint64_t)f->st.st_size == t->entry.size)
        rd.host = host_open(f->parent, f->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    if (rd.host < 0)
        start_writing(&rd);
    while ((r = tar_data(t, &piece, e)) > 0)
        add_content_piece(&rd, piece);
    c->hash = sip_end(&rd.hash);
    c->same = r == 0 && rd.host >= 0;
    if (c->same && store == CONTENT_ALWAYS)
        start_writing(&rd);
    drop_fd(&rd.host);
    return r;
}

void content_done(struct sync_content *c, const struct found_file *f)
{
    drop_fd(&c->fd);
    if (c->temp[0])
        (void)at_clear(f->parent, c->temp);
}
