/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an archive; what can be read must survive being written and read again. An archive that is
 * whole is also unpacked, next to a file that must not change, packed and removed. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/pack.h"
#include "lib/tar/reader.h"
#include "lib/tar/remove.h"
#include "lib/tar/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    const uint8_t *p;
    size_t n;
};

static ssize_t read_memory(void *ctx, void *p, size_t n)
{
    struct memory *m = ctx;

    if (n > m->n)
        n = m->n;
    if (n > 0)
        memcpy(p, m->p, n);
    m->p += n;
    m->n -= n;
    return (ssize_t)n;
}

static void must(bool true_)
{
    if (!true_)
        abort();
}

/* The header of an entry, written by us, says the same. */
static void write_and_read(const struct tar_entry *entry)
{
    static struct tar_reader t;
    static char head[TAR_HEAD_MAX];
    struct memory m = { (const uint8_t *)head, tar_encode(entry, head) };
    struct err e;

    tar_reader_init(&t, read_memory, &m);
    must(m.n <= sizeof head && m.n % TAR_BLOCK == 0);
    must(tar_next(&t, &e) == 1 && m.n == 0);
    must(strcmp(t.entry.path, entry->path) == 0 && strcmp(t.entry.link, entry->link) == 0);
    must(t.entry.mode == entry->mode && t.entry.uid == entry->uid && t.entry.gid == entry->gid);
    must(t.entry.size == entry->size && t.entry.mtime.tv_sec == entry->mtime.tv_sec);
    must(t.entry.type == entry->type);
}

static int read_archive(const uint8_t *data, size_t size)
{
    static struct tar_reader t;
    struct memory m = { data, size };
    struct str piece;
    struct err e;
    int r;

    tar_reader_init(&t, read_memory, &m);
    while ((r = tar_next(&t, &e)) > 0) {
        write_and_read(&t.entry);
        while ((r = tar_data(&t, &piece, &e)) > 0)
            must(piece.n > 0);
        if (r < 0)
            return r;
    }
    must(r == 0 || strnlen(e.msg, sizeof e.msg) < sizeof e.msg);
    return r;
}

static int scratch_ = -1; /* a directory with "victim" and, while an input runs, "dest" */
static char scratch_path_[32] = "/tmp/fuzz-tree-XXXXXX";

static void drop_scratch(void)
{
    unlinkat(scratch_, "victim", 0);
    rmdir(scratch_path_);
}

static void make_scratch(void)
{
    if (scratch_ >= 0)
        return;
    must(mkdtemp(scratch_path_) != NULL);
    scratch_ = open(scratch_path_, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(openat(scratch_, "victim", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    atexit(drop_scratch);
}

static int as_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void unpack_and_pack(int in, int dest)
{
    static const struct tree_unpack_options options = {
        .devices = TREE_SKIP,
        .fifos = TREE_SKIP,
        .attributes = true,
        .limits = { .entries = 200, .bytes = 1 << 20 },
    };
    AUTO_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct tree_report report;
    struct err e;

    if (tree_unpack(in, dest, &options, &report, &e) >= 0 && geteuid() == 0)
        must(tree_pack(null, dest, ".", &(struct tree_pack_options){ 0 }, &report, &e) >= 0);
}

static void use_archive(const uint8_t *data, size_t size)
{
    AUTO_CLOSE int in = as_file(data, size);
    AUTO_CLOSE int dest = -1;
    struct stat st;
    struct err e;

    make_scratch();
    must(mkdirat(scratch_, "dest", 0700) == 0);
    dest = openat(scratch_, "dest", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unpack_and_pack(in, dest);
    must(tree_remove(scratch_, "dest", &e) >= 0);
    must(fstatat(scratch_, "victim", &st, AT_SYMLINK_NOFOLLOW) == 0);
    must((st.st_mode & 07777) == 0644 && st.st_size == 0 && st.st_nlink == 1);
}

/* Sets the checksum of every block that looks like a header, or hardly any change would be seen. */
static void seal(uint8_t *block)
{
    unsigned sum = 0;

    if (memcmp(block + 257, "ustar", 5) != 0)
        return;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

static void run(const uint8_t *data, size_t size)
{
    if (read_archive(data, size) == 0)
        use_archive(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE uint8_t *copy = malloc(size ? size : 1);

    must(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK)
        seal(copy + at);
    run(data, size);
    if (memcmp(copy, data, size) != 0)
        run(copy, size);
    return 0;
}
