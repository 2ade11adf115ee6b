/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/sync/sync.h"
#include "world.h"

TEST(a_tree)
{
    struct world *w = world_make();

    sample_tree(&w->s);
    CHECK(shell("cd %s && rm -r host && mv src host && chmod u-s host/a/f host/hard", w->s.path));
    w->host = open_dir(w->s.dir, "host");
    world_send(w);
    CHECK(shell("cd %s && diff -r --no-dereference host box", w->s.path));
    CHECK(shell("cd %s && for d in host box; do (cd $d && find . -mindepth 1 -printf '%%P %%y %%m"
                " %%l\\n' | sort >../$d.list); done && cmp host.list box.list",
                w->s.path));
    CHECK_INT(lines_said(), 0);
}

static uint64_t moved, moves;

static void on_moved(void *ctx, uint64_t bytes)
{
    CHECK(bytes >= moved);
    moved = bytes;
    moves++;
}

TEST(how_much_has_moved_is_told_both_ways)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && head -c 3000000 /dev/zero >big && echo abc >small", w->s.path));
    w->options.moved = on_moved;
    world_send(w);
    CHECK_INT(moved, 3000004);
    CHECK(moves > 3); /* also while one file goes through */
    moved = 0;
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK_INT(moved, 3000004);
}

TEST(what_is_skipped)
{
    struct world *w = world_make();

    make_file(w->host, "f", "x");
    CHECK(mkfifoat(w->host, "fifo", 0600) == 0);
    make_file(w->host, ".sandboxer-mirror-00000000000000aa", "left over");
    make_file(w->host, ".sandboxer-mirror-mine", "a name that only looks like it");
    world_send(w);
    CHECK(said(SYNC_SKIPPED, "fifo"));
    CHECK_INT(lines_said(), 1);
    CHECK(!exists(w->host, ".sandboxer-mirror-00000000000000aa"));
    CHECK(exists(w->box, ".sandboxer-mirror-mine"));
    CHECK_INT(w->report.entries, 2);
}

TEST(what_cannot_be_read_is_left_alone)
{
    struct world *w;

    become_user();
    w = world_make();
    CHECK(shell("cd %s/host && echo 1 >secret && chmod 0 secret && mkdir shut && echo 1 >shut/f &&"
                " chmod 0 shut && echo 1 >open",
                w->s.path));
    world_send(w);
    CHECK(said(SYNC_FAILED, "secret") && said(SYNC_FAILED, "shut"));
    CHECK(exists(w->box, "open") && !exists(w->box, "secret") && !exists(w->box, "shut"));
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK_INT(lines_said(), 0);
    CHECK(exists(w->host, "secret") && exists(w->host, "shut"));
    CHECK(shell("chmod 700 %s/host/shut", w->s.path));
}

static const char *pause_content;

static void write_in_pause(void *ctx, const char *path)
{
    const struct world *w = ctx;

    if (strcmp(path, "x") == 0)
        make_file(w->host, "x", pause_content);
}

/* The sandbox has "base", so a later change inside must not replace what the host wrote. */
static void race(const char *content)
{
    struct world *w = world_make();

    make_file(w->host, "x", "base");
    pause_content = content;
    w->options.pause = write_in_pause;
    w->options.ctx = w;
    world_send(w);
    CHECK(said(SYNC_UNSTABLE, "x"));
    w->options.pause = NULL;
    make_file(w->box, "x", "from inside");
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK(said(SYNC_CONFLICT, "x"));
    CHECK_STR(content_of(w->host, "x"), content);
}

TEST(a_file_that_changes_while_it_is_read)
{
    race("BASE");
    race("longer than before");
    race("");
}

/* No time tells the two apart: the second change comes at once, with the same size and time. */
TEST(a_change_right_after_sending)
{
    struct world *w = world_make();
    struct stat st;

    make_file(w->host, "x", "base");
    world_send(w);
    CHECK(fstatat(w->host, "x", &st, 0) == 0);
    make_file(w->host, "x", "BASE");
    CHECK(utimensat(w->host, "x", (struct timespec[2]){ st.st_atim, st.st_mtim }, 0) == 0);
    make_file(w->box, "x", "from inside");
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK(said(SYNC_CONFLICT, "x"));
}

TEST(limits)
{
    struct world *w = world_make();
    int out = memory_file();

    CHECK(shell("cd %s/host && mkdir -p a/b && printf 12345678 >a/b/c && printf 12345678 >d",
                w->s.path));
    w->options.limits = (struct sync_limits){ .bytes = 15 };
    CHECK_INT(sync_send(w->host, out, -1, &w->options, &w->report, &w->e), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .entries = 3 };
    CHECK_INT(sync_send(w->host, out, -1, &w->options, &w->report, &w->e), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .depth = 2 };
    CHECK_INT(sync_send(w->host, out, -1, &w->options, &w->report, &w->e), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .path = 4 };
    CHECK_INT(sync_send(w->host, out, -1, &w->options, &w->report, &w->e), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .path = 5, .depth = 3, .entries = 4, .bytes = 16 };
    CHECK_OK(sync_send(w->host, out, -1, &w->options, &w->report, &w->e), w->e);
    CHECK(!w->report.manifest);
}
