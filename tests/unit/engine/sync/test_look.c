/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/tap.h"
#include "engine/sync/sync.h"
#include "world.h"

static int look_at_host(struct world *w)
{
    rewind_file(w->manifest);
    forget_lines();
    return sync_look(w->host, w->manifest, &w->options, &w->report, &w->e);
}

static struct world *sent_world(void)
{
    struct world *w = world_make();

    CHECK(
        shell("cd %s/host && mkdir -p dir/deep gone/deep && echo a >a && echo b >b && echo c >dir/c"
              " && echo d >dir/deep/d && echo e >gone/e && echo f >gone/deep/f && ln -s a link",
              w->s.path));
    world_send(w);
    return w;
}

TEST(nothing_changed)
{
    struct world *w = sent_world();

    CHECK_OK(look_at_host(w), w->e);
    CHECK_INT(lines_said(), 0);
    CHECK_INT(w->report.entries, 11);
    CHECK(shell("touch -d 2001-01-01 %s/host/a && mkfifo %s/host/fifo", w->s.path, w->s.path));
    CHECK_OK(look_at_host(w), w->e); /* the same content, and what is never copied */
    CHECK_INT(lines_said(), 0);
}

TEST(each_kind_of_change)
{
    struct world *w = sent_world();

    CHECK(shell(
        "cd %s/host && echo other >a && chmod 700 b && rm dir/c && rm -r gone && ln -sfn b link"
        " && mkdir new && echo n >new/n && echo m >dir/deep/m",
        w->s.path));
    CHECK_OK(look_at_host(w), w->e);
    CHECK(said(SYNC_REPLACED, "a") && said(SYNC_REPLACED, "b") && said(SYNC_REPLACED, "link"));
    CHECK(said(SYNC_DELETED, "dir/c") && said(SYNC_DELETED, "gone"));
    CHECK(said(SYNC_CREATED, "new") && said(SYNC_CREATED, "dir/deep/m"));
    CHECK_INT(lines_said(), 7); /* not what is in a new or removed directory */
    CHECK_INT(w->report.count[SYNC_REPLACED], 3);
}

TEST(a_directory_that_became_a_file)
{
    struct world *w = sent_world();

    CHECK(shell("cd %s/host && rm -r gone && echo file >gone && rm a && mkdir a", w->s.path));
    CHECK_OK(look_at_host(w), w->e);
    CHECK(said(SYNC_REPLACED, "gone") && said(SYNC_REPLACED, "a"));
    CHECK(said(SYNC_DELETED, "gone/e") && said(SYNC_DELETED, "gone/deep"));
    CHECK_INT(lines_said(), 4);
}

TEST(what_came_back_is_no_change)
{
    struct world *w = sent_world();

    CHECK(shell("cd %s/box && echo inside >a && echo new >n && rm b", w->s.path));
    CHECK_OK(look_at_host(w), w->e); /* the sandbox's side does not matter */
    CHECK_INT(lines_said(), 0);
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK_INT(lines_said(), 3);
    CHECK_OK(look_at_host(w), w->e);
    CHECK_INT(lines_said(), 0);
}

TEST(what_cannot_be_read_is_not_reported)
{
    struct world *w;

    become_user();
    w = sent_world();
    CHECK(shell("cd %s/host && echo s >secret && chmod 0 secret && chmod 0 dir && echo new >n",
                w->s.path));
    CHECK_OK(look_at_host(w), w->e);
    CHECK(said(SYNC_CREATED, "n") && said(SYNC_REPLACED, "dir")); /* the mode of it */
    CHECK_INT(lines_said(), 2);
    CHECK(shell("chmod 755 %s/host/dir", w->s.path));
}

TEST(a_truncated_manifest_is_refused)
{
    struct world *w = sent_world();

    CHECK(ftruncate(w->manifest, 20) == 0);
    CHECK_INT(look_at_host(w), -ERR_INVALID);
}
