/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "world.h"

static struct err e;

static struct found_file find(int dir, const char *text)
{
    static struct tree_path path;
    struct found_file f;

    CHECK_OK(tree_path(str_from(text), &path, &e), e);
    CHECK_OK(host_find(dir, &path, &f, &e), e);
    return f;
}

TEST(what_is_at_a_path)
{
    struct world *w = world_make();
    int dir = make_dir(w->host, "d");

    make_file(dir, "f", "x");
    CHECK(symlinkat("d", w->host, "link") == 0);
    CHECK_INT(find(w->host, "d").kind, KIND_DIR);
    CHECK_INT(find(w->host, "d/f").kind, KIND_FILE);
    CHECK_INT(find(w->host, "link").kind, KIND_LINK);
    CHECK(!find(w->host, "d/none").there && find(w->host, "d/none").parent >= 0);
    CHECK(!find(w->host, "link/f").there && find(w->host, "link/f").parent < 0);
    CHECK(find(w->host, "none/f").parent < 0 && find(w->host, "d/f/x").parent < 0);
}

TEST(a_mount_is_not_entered)
{
    world_make();
    CHECK(host_open(open_dir(AT_FDCWD, "/"), "proc/self", O_RDONLY, 0) < 0);
}

TEST(temporary_names)
{
    char name[HOST_TEMP_MAX];

    CHECK_OK(host_temp_name(name, &e), e);
    CHECK(host_is_temp(name));
    name[strlen(name) - 1] = 'X';
    CHECK(!host_is_temp(name));
    CHECK(!host_is_temp(".sandboxer-mirror-") && !host_is_temp("x"));
    CHECK(!host_is_temp(".sandboxer-mirror-0123456789abcdef0"));
}

TEST(putting_and_removing)
{
    struct world *w = world_make();
    struct found_file f;

    make_file(w->host, "f", "old");
    make_file(w->host, "t", "new");
    f = find(w->host, "f");
    CHECK_INT(host_put(&f, "t", &e), HOST_DONE);
    CHECK_STR(content_of(w->host, "f"), "new");
    CHECK(!exists(w->host, "t"));
    CHECK_INT(host_remove(&f, &e), HOST_RACED); /* what was found is not there any more */
    CHECK_STR(content_of(w->host, "f"), "new");
    f = find(w->host, "f");
    CHECK_INT(host_remove(&f, &e), HOST_DONE);
    CHECK(!exists(w->host, "f"));
    CHECK_INT(host_remove(&f, &e), HOST_RACED);
}

TEST(a_sweep_removes_only_what_is_ours)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir -p a/b && touch a/b/.sandboxer-mirror-0123456789abcdef"
                " .sandboxer-mirror-x a/f && ln -s / a/.sandboxer-mirror-0123456789abcde0 &&"
                " mkdir .sandboxer-mirror-ffffffffffffffff",
                w->s.path));
    CHECK_OK(host_sweep(w->host, &e), e);
    CHECK(shell("cd %s/host && test \"$(find . -mindepth 1 | sort | tr '\\n' ' ')\" = "
                "'./.sandboxer-mirror-x ./a ./a/b ./a/f '",
                w->s.path));
}

TEST(unchanged_by_its_identity_or_its_content)
{
    struct world *w = world_make();
    struct sip_key key = { { 1, 2 } };
    struct sync_entry was = { .recorded = true };
    struct found_file f;

    make_file(w->host, "f", "text");
    f = find(w->host, "f");
    was.value = (struct sync_value){ KIND_FILE, 0644, sip_str(&key, STR("text")) };
    CHECK(host_unchanged(&f, &was, &key));
    was.value.hash++;
    CHECK(!host_unchanged(&f, &was, &key));
    was.identity = sync_identity_of(&f.st, INT64_MAX);
    CHECK(host_unchanged(&f, &was, &key)); /* it was not read */
    was.value.mode = 0600;
    CHECK(!host_unchanged(&f, &was, &key));
}
