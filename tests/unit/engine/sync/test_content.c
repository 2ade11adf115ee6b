/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/content.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "harness/tap.h"
#include "lib/tar/path.h"
#include "world.h"

enum { SIZE = 300000 };

static struct err e;
static struct sync_content content;
static char host_text[SIZE + 1], box_text[SIZE + 1];

/* An archive whose reader meddles with the host's file when half of it was read. */
struct meddler {
    const struct archive *a;
    size_t at;
    int host;
    bool meddle;
};

static ssize_t read_some(void *ctx, void *p, size_t n)
{
    struct meddler *m = ctx;
    size_t left = m->a->n - m->at;

    if (m->meddle && m->at > SIZE / 2) {
        int fd = openat(m->host, "f", O_WRONLY | O_CLOEXEC);

        CHECK(fd >= 0 && write(fd, "X", 1) == 1);
        close(fd);
        m->meddle = false;
    }
    if (n > left)
        n = left;
    memcpy(p, m->a->bytes + m->at, n);
    m->at += n;
    return (ssize_t)n;
}

static void read_content(struct world *w, bool meddle, enum content_store store)
{
    static const struct sip_key key = { { 1, 2 } };
    static struct tar_reader t;
    static struct tree_path path;
    struct archive *a = archive_new();
    struct meddler m = { .a = a, .host = w->host, .meddle = meddle };
    struct found_file f;

    memset(&content, 0, sizeof content);
    content.fd = -1;
    make_file(w->host, "f", host_text);
    archive_file(a, "f", box_text);
    archive_end(a);
    CHECK_OK(tree_path(STR("f"), &path, &e), e);
    CHECK_OK(host_find(w->host, &path, &f, &e), e);
    tar_reader_init(&t, read_some, &m);
    CHECK(tar_next(&t, &e) == 1);
    CHECK_OK(content_read(&content, &t, &key, &f, store, &e), e);
    CHECK(content.hash == sip_str(&key, str_from(box_text)));
}

static struct world *prepare(void)
{
    memset(host_text, 'a', SIZE);
    memset(box_text, 'a', SIZE);
    return world_make();
}

TEST(the_same_costs_no_write)
{
    struct world *w = prepare();

    read_content(w, false, CONTENT_IF_DIFFERENT);
    CHECK(content.same && !content.temp[0]);
    read_content(w, false, CONTENT_ALWAYS);
    CHECK(content.same && content.temp[0]);
    CHECK(shell("cd %s/host && cmp f %s", w->s.path, content.temp));
}

TEST(a_difference_at_any_place)
{
    static const size_t places[] = { 0, 1, 65535, 65536, 200000, SIZE - 1 };

    for (int i = 0; i < 6; i++) {
        struct world *w = prepare();

        box_text[places[i]] = 'b';
        read_content(w, false, CONTENT_IF_DIFFERENT);
        CHECK(!content.same && content.trouble == 0 && content.temp[0]);
        box_text[places[i]] = 'a';
        CHECK(
            shell("cd %s/host && test $(cmp -l f %s | wc -l) = 1 && cmp -l f %s | grep -q '^ *%zu "
                  "141 142$'",
                  w->s.path, content.temp, content.temp, places[i] + 1));
    }
}

TEST(a_host_file_that_changes_while_it_is_compared)
{
    struct world *w = prepare();

    box_text[SIZE - 1] = 'b';
    read_content(w, true, CONTENT_IF_DIFFERENT);
    CHECK(!content.same);
    CHECK_INT(content.trouble, -ERR_BUSY); /* what was written is neither side's */
}

TEST(only_looking)
{
    struct world *w = prepare();

    box_text[5] = 'b';
    read_content(w, false, CONTENT_HASH);
    CHECK(!content.same && !content.temp[0]);
    CHECK(shell("test \"$(ls -A %s/host)\" = f", w->s.path));
}
