/* SPDX-License-Identifier: Apache-2.0 */
/* The program behind a connection: a worker asks, the box reports the processes that hold the
 * socket, and the program's SHA-256 is computed. Programs are identified by content, since paths
 * inside are under the sandbox's control. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "engine/egress/wire.h"

enum {
    HASHES_MAX = 2,        /* programs being hashed at once: threads that the store shares … */
    HASHES_SHARE = 1,      /* … for one owner … */
    HASHES_WAIT_MAX = 64,  /* … of which so many wait */
    PIECE = 256 << 10,     /* bytes of one read */
    PROGRAM_MAX = 1 << 30, /* larger programs have no identity */
    CACHE_SLOTS = WHO_CACHE_N, /* each program has one slot: a later one replaces it */
};

struct program_hashing {
    struct thread_job job;
    struct turn turn;
    struct control *control;
    struct wire_who_is answer;
    char box[ID_MAX];
    uint64_t starts; /* identifies the worker process that asked */
    int fd;
    struct who_file file;
    bool good;
};

/* ---- the cache ---- */

static bool is_same_program(const struct who_file *a, const struct who_file *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* The file's owner can set mtime back, but not ctime. */
static bool stat_program(int fd, struct who_file *ret)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > PROGRAM_MAX)
        return false;
    *ret = (struct who_file){ .dev = st.st_dev,
                              .ino = st.st_ino,
                              .size = (uint64_t)st.st_size,
                              .mtime_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                              .ctime_ns = st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec };
    return true;
}

static struct who_known *find_who_slot(struct control *c, const struct who_file *f)
{
    return &c->egress_links->known[(f->ino ^ f->dev ^ f->ino >> 16) % CACHE_SLOTS];
}

/* ---- reading ---- */

/* On a thread of the pool. A file that changes meanwhile gets no hash. */
static void read_program(struct thread_job *j)
{
    struct program_hashing *h = container_of(j, struct program_hashing, job);
    AUTO(crypto_sha256_done) struct crypto_sha256 sum = { 0 };
    unsigned char digest[CRYPTO_SHA256_SIZE];
    struct who_file after;
    char *piece = malloc(PIECE);
    uint64_t at = 0;
    ssize_t n = 1;

    while (piece && n > 0 && at < h->file.size) {
        n = pread(h->fd, piece, PIECE, (off_t)at);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            crypto_sha256_add(&sum, (struct str){ piece, (size_t)n }), at += (uint64_t)n;
    }
    free(piece);
    h->good =
        at == h->file.size && stat_program(h->fd, &after) && is_same_program(&h->file, &after);
    if (!h->good)
        return;
    crypto_sha256_end(&sum, digest);
    crypto_hex_sha256(digest, h->answer.hash);
}

/* ---- answering ---- */

static void answer_worker(struct control *c, const char *box, uint64_t starts,
                          struct wire_who_is *m)
{
    struct egress_link *o = egress_link_find(c, box);
    struct egress_worker *w = o ? &o->worker->process : NULL;

    if (w && w->starts == starts)
        egress_worker_send(w, m, sizeof *m, NULL, 0);
}

void egress_links_open_hashing(struct control *c)
{
    struct turns *t = &c->egress_links->hashing;
    struct quota_limits running = quota_token_limits(HASHES_SHARE),
                        waiting = quota_token_limits(HASHES_WAIT_MAX);

    running.total = HASHES_MAX;
    turns_init(t, c->loop);
    quota_init(&t->running, &running, "programs being hashed", "", "a fixed limit");
    quota_init(&t->waiting, &waiting, "programs that wait to be hashed", "", "a fixed limit");
}

static void finish_hashing(struct program_hashing *h)
{
    struct control *c = h->control;

    if (h->good) {
        struct who_known *k = find_who_slot(c, &h->file);

        k->file = h->file;
        memcpy(k->hash, h->answer.hash, sizeof k->hash);
    } else {
        h->answer.known = 0;
    }
    answer_worker(c, h->box, h->starts, &h->answer);
    drop_fd(&h->fd);
    turns_leave(&c->egress_links->hashing, &h->turn);
    c->changes--;
    free(h);
}

static void on_program_hashed(struct thread_job *j, enum work_end end)
{
    struct program_hashing *h = container_of(j, struct program_hashing, job);

    h->good = h->good && end == THREAD_RAN;
    finish_hashing(h);
}

static void on_hashing_turn(struct turn *t)
{
    struct program_hashing *h = container_of(t, struct program_hashing, turn);

    if (thread_submit(h->control->work, &h->job, NULL, read_program, on_program_hashed, NULL) < 0)
        finish_hashing(h);
}

/* Whether it is an ancestor of all holders. */
static bool is_ancestor(const struct backend_who *w, const struct backend_exe *x)
{
    for (size_t i = 1; i < w->n; i++) {
        size_t k = 0;

        while (k < w->holders[i].n_ancestors && w->holders[i].ancestors[k] != x)
            k++;
        if (k == w->holders[i].n_ancestors)
            return false;
    }
    return true;
}

static bool fits_wire_path(const char *path)
{
    return path && path[0] == '/' && strlen(path) < WIRE_PATH_MAX;
}

/* All holders of the socket must run the same program. */
static bool fill_who_answer(struct wire_who_is *m, const struct backend_who *w)
{
    const struct backend_holder *first = w->holders;

    _Static_assert((int)BACKEND_ANCESTORS_MAX <= (int)WIRE_ANCESTORS_MAX, "all of them");
    for (size_t i = 0; i < w->n; i++)
        if (!w->holders[i].exe || w->holders[i].exe != first->exe)
            return false;
    if (w->n == 0 || !fits_wire_path(first->exe->path))
        return false;
    m->known = 1;
    m->pid = first->pid;
    snprintf(m->binary, sizeof m->binary, "%s", first->exe->path);
    for (size_t i = 0; i < first->n_ancestors; i++)
        if (first->ancestors[i] && fits_wire_path(first->ancestors[i]->path) &&
            is_ancestor(w, first->ancestors[i]))
            snprintf(m->ancestors[m->n_ancestors++], WIRE_PATH_MAX, "%s",
                     first->ancestors[i]->path);
    return true;
}

static bool begin_hashing(struct control *c, const char *box, uint64_t starts,
                          const struct wire_who_is *m, int fd, const struct who_file *f)
{
    const struct egress_link *o = egress_link_find(c, box);
    const struct account a = account_of(c, o ? o->owner : "", o ? o->family : "");
    const struct quota_who who = account_holder(&a);
    struct program_hashing *h = new0(sizeof *h);

    *h = (struct program_hashing){ .control = c, .answer = *m, .starts = starts, .file = *f };
    snprintf(h->box, sizeof h->box, "%s", box);
    h->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (h->fd < 0 ||
        turns_join(&c->egress_links->hashing, &h->turn, &who, false, on_hashing_turn, NULL) < 0) {
        drop_fd(&h->fd);
        free(h);
        return false;
    }
    c->changes++; /* closing waits for it */
    return true;
}

void egress_link_on_who(struct control *c, struct backend_box *b, uint64_t tag, int r,
                        const struct err *e, const struct backend_who *w)
{
    struct wire_who_is m = { .known = 0 };
    struct who_known *k;
    struct who_file f;
    uint64_t starts = tag >> 32;

    wire_fill(&m.head, WIRE_WHO_IS, (uint32_t)tag, sizeof m);
    if (r < 0 || !fill_who_answer(&m, w) || !stat_program(w->holders[0].exe->fd, &f)) {
        m.known = 0;
    } else {
        k = find_who_slot(c, &f);
        if (is_same_program(&k->file, &f))
            memcpy(m.hash, k->hash, sizeof k->hash);
        else if (begin_hashing(c, b->id, starts, &m, w->holders[0].exe->fd, &f))
            return;
        else
            m.known = 0;
    }
    answer_worker(c, b->id, starts, &m);
}
