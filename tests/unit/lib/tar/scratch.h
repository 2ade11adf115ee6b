/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of trees and images share: a directory that vanishes with the test, archives made
 * byte by byte (not by the code under test), and a shell to compare with. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum { USER = 1000, ARCHIVE_MAX = 4 << 20 };

/* A new directory in /tmp with mode 0777; it is removed when this process is gone, however it
 * ends. */
struct scratch {
    char path[64];
    int dir;
};
struct scratch scratch_make(void);

int open_dir(int dir, const char *path); /* the test fails if it cannot */
int make_dir(int dir, const char *path); /* with mode 0755, opened */
void make_file(int dir, const char *path, const char *content);
bool exists(int dir, const char *path); /* a dangling link exists too */
mode_t mode_of(int dir, const char *path);

/* The content of a file or the target of a link; the caller's until the next call. */
struct str content_of(int dir, const char *path);
struct str target_of(int dir, const char *path);

void become_user(void); /* uid and gid USER; the test is skipped where that is impossible */
void need_root(void);

/* Runs a shell command made by printf; true if it succeeds. */
bool shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "src": long names, links of both kinds, a directory nobody may write to, old times, a setuid
 * bit. */
void sample_tree(const struct scratch *s);

/* Two directories in it hold the same, down to modes, times in seconds, link counts and targets. */
bool same_trees(const struct scratch *s, const char *a, const char *b);

/* An archive in the making. The attributes hold for the entries that follow. */
struct archive {
    size_t n;
    unsigned mode, uid, gid;
    long long mtime;
    char bytes[ARCHIVE_MAX];
};

struct archive *archive_new(void); /* never freed: a test is a process */
void archive_file(struct archive *a, const char *path, const char *content);
void archive_dir(struct archive *a, const char *path);
void archive_link(struct archive *a, char type, const char *path, const char *target);
void archive_pax(struct archive *a, const char *key, const char *value); /* of the next entry */
void archive_long(struct archive *a, char type, const char *name);       /* GNU 'L' or 'K' */
void archive_head(struct archive *a, char type, const char *path, const char *target,
                  long long size);
void archive_data(struct archive *a, const void *p, size_t n); /* padded to a block */
void archive_seal(char *block);                                /* sets the checksum right */
void archive_end(struct archive *a);
int archive_fd(const struct archive *a); /* a file that holds it, at its start */

#endif
