/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/handover.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/ipc/credentials.h"

enum { HANDOVER_MAGIC = 0x44484f53 /* "SOHD" */, HANDOVER_VERSION = 2 };

/* Only the used files are sent. */
struct handover_message {
    uint32_t magic, version, n, pad;
    struct handover_file file[HANDOVER_FILES_MAX];
};

static size_t handover_size(size_t n)
{
    return offsetof(struct handover_message, file) + n * sizeof(struct handover_file);
}

void handover_done(struct handover *h)
{
    for (size_t i = 0; i < h->n; i++)
        drop_fd(&h->fd[i]);
    h->n = 0;
}

/* How many files there may be, of which the first one is this. */
static size_t most_files(const struct handover_file *first)
{
    return first->use == HANDOVER_WORKSPACE ? HANDOVER_FILES_MAX : HANDOVER_MOUNTS_MAX;
}

int handover_add(struct handover *h, int *fd, const struct handover_file *f, struct err *e)
{
    if (h->n && h->n == most_files(&h->file[0]))
        return err_set(e, ERR_TOO_BIG, "more than %d mounts", HANDOVER_MOUNTS_MAX);
    h->file[h->n] = *f;
    h->fd[h->n++] = take_fd(fd);
    return 0;
}

int handover_make(const struct handover *h, int *ret, struct err *e)
{
    const struct credentials self = credentials_own();
    struct handover_message m = { HANDOVER_MAGIC, HANDOVER_VERSION, (uint32_t)h->n, 0, { { 0 } } };

    memcpy(m.file, h->file, h->n * sizeof m.file[0]);
    return err_wrap(e, credentials_send(&self, &m, handover_size(h->n), h->fd, h->n, ret, e),
                    "handing over files");
}

/* Of a message whose files are all there. */
static bool is_handover_file(const struct handover_message *m, size_t i)
{
    const struct handover_file *f = &m->file[i];

    return f->writable <= 1 && memchr(f->target, 0, sizeof f->target) &&
           (f->use == HANDOVER_MOUNT || (f->use == HANDOVER_WORKSPACE && i == 0));
}

static bool is_handover(const struct handover_message *m, size_t size, size_t n_fds)
{
    if (size < handover_size(0) || m->magic != HANDOVER_MAGIC || m->version != HANDOVER_VERSION ||
        m->n == 0 || m->n > HANDOVER_FILES_MAX || size != handover_size(m->n) || n_fds != m->n ||
        m->n > most_files(&m->file[0]))
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (!is_handover_file(m, i))
            return false;
    return true;
}

static int check_handed_type(const struct handover_file *f, int fd, struct err *e)
{
    struct stat st;
    bool known = fstat(fd, &st) == 0;

    if (known && (S_ISDIR(st.st_mode) || (f->use == HANDOVER_MOUNT && S_ISREG(st.st_mode))))
        return 0;
    return f->use == HANDOVER_MOUNT
               ? err_set(e, ERR_INVALID,
                         "the file for %.120s is neither a directory nor a regular file", f->target)
               : err_set(e, ERR_INVALID, "the client handed over something that is no directory");
}

int handover_take(int sock, bool peek, struct handover *ret, struct err *e)
{
    struct handover_message m = { 0 };
    struct credentials sender;
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    ssize_t n = credentials_receive(sock, peek, &m, sizeof m, &fds, &sender, e);
    int r = 0;

    if (n < 0 || !is_handover(&m, (size_t)n, fds.n))
        return err_set(e, ERR_DENIED, "the client handed over no files");
    for (size_t i = 0; i < m.n && r >= 0; i++)
        r = check_handed_type(&m.file[i], fds.fd[i], e);
    if (r < 0)
        return r;
    *ret = (struct handover){ .n = m.n, .uid = sender.uid, .gid = sender.gid };
    memcpy(ret->file, m.file, m.n * sizeof m.file[0]);
    for (size_t i = 0; i < m.n; i++)
        ret->fd[i] = take_fd(&fds.fd[i]);
    return 0;
}
