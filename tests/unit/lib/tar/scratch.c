/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/tap.h"

/* Outlives the test, even one that is killed: its end of the pipe tells it. */
static void guard(const char *path)
{
    int fds[2];

    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    if (fork() == 0) {
        setsid();
        dup2(fds[0], STDIN_FILENO);
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(STDOUT_FILENO, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", "read x; chmod -R u+rwx \"$1\"; rm -rf \"$1\"", "sh", path,
              (char *)NULL);
        _exit(1);
    }
    close(fds[0]); /* the other end stays open until the end */
}

struct scratch scratch_make(void)
{
    struct scratch s = { .path = "/tmp/tree-test-XXXXXX" };

    CHECK(mkdtemp(s.path));
    guard(s.path);
    CHECK(chmod(s.path, 0777) == 0);
    s.dir = open_dir(AT_FDCWD, s.path);
    umask(022);
    return s;
}

int open_dir(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        FAIL("cannot open %s: %m", path);
    return fd;
}

int make_dir(int dir, const char *path)
{
    if (mkdirat(dir, path, 0755) < 0)
        FAIL("cannot make %s: %m", path);
    return open_dir(dir, path);
}

void make_file(int dir, const char *path, const char *content)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, content, strlen(content)) != (ssize_t)strlen(content))
        FAIL("cannot write %s: %m", path);
    close(fd);
}

bool exists(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

mode_t mode_of(int dir, const char *path)
{
    struct stat st;

    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        FAIL("no %s", path);
    return st.st_mode & 07777;
}

struct str content_of(int dir, const char *path)
{
    static char text[65536];
    int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        FAIL("cannot open %s: %m", path);
    n = read(fd, text, sizeof text);
    close(fd);
    return (struct str){ text, n > 0 ? (size_t)n : 0 };
}

struct str target_of(int dir, const char *path)
{
    static char text[8192];
    ssize_t n = readlinkat(dir, path, text, sizeof text);

    if (n < 0)
        FAIL("%s is no link: %m", path);
    return (struct str){ text, (size_t)n };
}

void need_root(void)
{
    if (geteuid() != 0)
        SKIP("needs root");
}

void become_user(void)
{
    if (geteuid() == USER)
        return;
    if (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
        setresuid(USER, USER, USER) < 0)
        SKIP("cannot become user %d", USER);
}

bool shell(const char *fmt, ...)
{
    char command[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    return system(command) == 0;
}

void sample_tree(const struct scratch *s)
{
    CHECK(shell("cd %s && mkdir -p src/a/b/c src/empty src/ro && printf hello >src/a/f &&"
                " head -c 300000 /dev/urandom >src/a/b/big && ln -s ../f src/a/b/link &&"
                " ln src/a/f src/hard && chmod 4711 src/a/f && : >src/nothing &&"
                " n=$(printf '%%0200d' 7) && echo x >src/$n && ln -s $n$n src/longlink &&"
                " mkdir -p src/$n-d/$n && echo y >src/$n-d/$n/f && echo z >src/ro/f &&"
                " touch -d @123456789 src/a/b/big src/a/b src/a && touch -h -d @99 src/longlink &&"
                " chmod 555 src/ro && touch -d @1234 src/ro src",
                s->path));
}

bool same_trees(const struct scratch *s, const char *a, const char *b)
{
    return shell(
        "cd %s && for d in %s %s; do (cd $d && find . -printf '%%p %%y %%m %%Ts %%l ' "
        "\\( -type f -printf '%%s %%n' \\) -o -printf '\\n' | sort; find . -type f | sort | "
        "xargs sha256sum) >$d.list; done; cmp %s.list %s.list",
        s->path, a, b, a, b);
}

struct archive *archive_new(void)
{
    static struct archive a;

    a.n = 0;
    a.mode = 0644;
    a.uid = a.gid = 0;
    a.mtime = 1000000000;
    return &a;
}

void archive_seal(char *block)
{
    unsigned sum = 0;

    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
}

static void copy_text(char *to, size_t cap, const char *text)
{
    memcpy(to, text, strnlen(text, cap));
}

void archive_head(struct archive *a, char type, const char *path, const char *target,
                  long long size)
{
    char *b = a->bytes + a->n;

    if (a->n + 512 > sizeof a->bytes)
        FAIL("the test's archive is full");
    memset(b, 0, 512);
    copy_text(b, 100, path);
    snprintf(b + 100, 8, "%07o", a->mode);
    snprintf(b + 108, 8, "%07o", a->uid);
    snprintf(b + 116, 8, "%07o", a->gid);
    snprintf(b + 124, 12, "%011llo", (unsigned long long)size);
    snprintf(b + 136, 12, "%011llo", (unsigned long long)a->mtime);
    b[156] = type;
    copy_text(b + 157, 100, target);
    memcpy(b + 257, "ustar\00000", 8);
    archive_seal(b);
    a->n += 512;
}

void archive_data(struct archive *a, const void *p, size_t n)
{
    size_t padded = (n + 511) / 512 * 512;

    if (a->n + padded > sizeof a->bytes)
        FAIL("the test's archive is full");
    memset(a->bytes + a->n, 0, padded);
    memcpy(a->bytes + a->n, p, n);
    a->n += padded;
}

void archive_file(struct archive *a, const char *path, const char *content)
{
    archive_head(a, '0', path, "", (long long)strlen(content));
    archive_data(a, content, strlen(content));
}

void archive_dir(struct archive *a, const char *path)
{
    unsigned mode = a->mode;

    a->mode |= (mode & 0444) >> 2; /* who may read may enter */
    archive_head(a, '5', path, "", 0);
    a->mode = mode;
}

void archive_link(struct archive *a, char type, const char *path, const char *target)
{
    archive_head(a, type, path, target, 0);
}

void archive_pax(struct archive *a, const char *key, const char *value)
{
    static char record[128 << 10];
    int body = (int)(strlen(key) + strlen(value)) + 3, n = body + 1, before;

    do {
        before = n;
        n = body + snprintf(NULL, 0, "%d", n);
    } while (n != before);
    snprintf(record, sizeof record, "%d %s=%s\n", n, key, value);
    archive_head(a, 'x', "pax", "", n);
    archive_data(a, record, (size_t)n);
}

void archive_long(struct archive *a, char type, const char *name)
{
    archive_head(a, type, "././@LongLink", "", (long long)strlen(name) + 1);
    archive_data(a, name, strlen(name) + 1);
}

void archive_end(struct archive *a)
{
    static const char zeros[1024];

    archive_data(a, zeros, sizeof zeros);
}

int archive_fd(const struct archive *a)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, a->bytes, a->n) == (ssize_t)a->n);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}
