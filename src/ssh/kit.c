#include "ssh/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "proc/sealed.h"
#include "proc/spawn.h"
#include "ssh/listing.h"

#define SERVER "/usr/sbin/sshd"
/* From OpenSSH 9.8 on, sshd starts this for each connection: what is lent to one program does not
 * reach the next. */
#define SPLIT_SERVER "/usr/lib/openssh/sshd-session"

enum { FILE_MAX = 32 << 20, LISTING_MAX = 32 << 10 };

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct ssh_kit {
    int fds[SSH_KIT_FILES_MAX]; /* -1: none yet */
    size_t n;
    char *paths[SSH_KIT_FILES_MAX]; /* NULL: our own */
    struct stamp stamps[SSH_KIT_FILES_MAX];
};

/* --- one file --- */

static struct stamp stamp_of(const struct stat *st)
{
    return (struct stamp){ st->st_dev, st->st_ino, st->st_size, st->st_ctim };
}

static bool same(const struct stamp *a, const struct stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static int add_file(struct ssh_kit *k, size_t at, struct str path, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char text[PATH_MAX];
    struct stat st;
    int r;

    if (at >= SSH_KIT_FILES_MAX || !str_copy(path, text, sizeof text))
        return err_set(e, ERR_UNSUPPORTED, SERVER " needs more libraries than can be handed on");
    fd = openat(AT_FDCWD, text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening %s", text);
    r = sealed_copy(fd, text, FILE_MAX, &k->fds[at], e);
    if (r < 0)
        return r;
    k->stamps[at] = stamp_of(&st);
    k->paths[at] = strdup(text);
    if (!k->paths[at])
        abort();
    return 0;
}

/* --- what the server needs --- */

static int read_all(int fd, struct buf *ret, struct err *e)
{
    char *room;
    ssize_t n;

    do {
        if (buf_room(ret, 4096, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "what " SERVER " needs is too long a list");
        n = read(fd, room, 4096);
        if (n > 0)
            buf_grew(ret, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? err_sys(e, "reading what " SERVER " needs") : 0;
}

/* The loader tells, and does not start the program. */
static int ask_loader(struct buf *ret, struct err *e)
{
    char *const argv[] = { (char[]){ SERVER }, NULL };
    char *const envp[] = { (char[]){ "LD_TRACE_LOADED_OBJECTS=1" }, NULL };
    AUTO_CLOSE int out = -1, in = -1;
    int ends[2], fds[3], status, r;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    out = ends[0];
    in = ends[1];
    fds[0] = fds[2] = -1;
    fds[1] = in;
    r = spawn_start(
        &(struct spawn){ .path = SERVER, .argv = argv, .envp = envp, .fds = fds, .n_fds = 3 }, &pid,
        e);
    if (r < 0)
        return r;
    drop_fd(&in);
    r = read_all(out, ret, e);
    drop_fd(&out);
    if (spawn_wait(pid, &status, r < 0 ? NULL : e) < 0)
        return -(int)ERR_SYS;
    if (r >= 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        return err_set(e, ERR_UNSUPPORTED, "the loader does not say what " SERVER " needs");
    return r;
}

static int add_needed(struct ssh_kit *k, struct str listing, struct err *e)
{
    struct ssh_needed needed;
    int r = 0;

    while (r >= 0 && ssh_listing_next(&listing, &needed)) {
        if (needed.missing.n)
            return err_set(e, ERR_UNSUPPORTED, SERVER " needs " STR_FMT ", which is not there",
                           STR_ARG(needed.missing));
        r = add_file(k, needed.loader ? SSH_KIT_LOADER : k->n, needed.path, e);
        k->n += r >= 0 && !needed.loader;
    }
    if (r >= 0 && k->fds[SSH_KIT_LOADER] < 0)
        r = err_set(e, ERR_UNSUPPORTED, SERVER " is not linked dynamically");
    return r;
}

/* --- all of it --- */

static struct ssh_kit *kit_new(void)
{
    struct ssh_kit *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    for (size_t i = 0; i < SSH_KIT_FILES_MAX; i++)
        k->fds[i] = -1;
    k->n = SSH_KIT_LIBRARIES;
    return k;
}

void ssh_kit_free(struct ssh_kit *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < SSH_KIT_FILES_MAX; i++) {
        drop_fd(&k->fds[i]);
        free(k->paths[i]);
    }
    free(k);
}

static void kit_freep(struct ssh_kit **k)
{
    ssh_kit_free(*k);
}

static int check_machine(struct err *e)
{
    if (access(SERVER, X_OK) < 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "there is no " SERVER " on the daemon's machine: install openssh-server "
                       "(its service need not run)");
    if (access(SPLIT_SERVER, F_OK) == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the daemon's machine has OpenSSH 9.8 or newer, whose server is of several "
                       "programs; up to 9.7 it can be used");
    return 0;
}

int ssh_kit_make(struct ssh_kit **ret, struct err *e)
{
    AUTO(kit_freep) struct ssh_kit *k = kit_new();
    AUTO(buf_done) struct buf listing = BUF_INIT(LISTING_MAX);
    int r = check_machine(e);

    if (r >= 0)
        r = add_file(k, SSH_KIT_SERVER, STR(SERVER), e);
    if (r >= 0)
        r = sealed_text((struct str){ ssh_preload_so, ssh_preload_size }, "preload",
                        &k->fds[SSH_KIT_PRELOAD], e);
    if (r >= 0)
        r = ask_loader(&listing, e);
    if (r >= 0)
        r = add_needed(k, buf_str(&listing), e);
    if (r >= 0)
        *ret = take_ptr(k);
    return r;
}

bool ssh_kit_fresh(const struct ssh_kit *k)
{
    for (size_t i = 0; i < k->n; i++) {
        struct stamp now;
        struct stat st;

        if (!k->paths[i])
            continue;
        if (stat(k->paths[i], &st) < 0)
            return false;
        now = stamp_of(&st);
        if (!same(&now, &k->stamps[i]))
            return false;
    }
    return true;
}

const int *ssh_kit_files(const struct ssh_kit *k, size_t *ret_n)
{
    *ret_n = k->n;
    return k->fds;
}
