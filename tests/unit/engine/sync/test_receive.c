/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/sync/sync.h"
#include "world.h"

/* What one side does to "x", which is a file that says "base" or, in rows that say so, not
 * there. */
enum deed { LEAVE, WRITE_A, WRITE_B, REMOVE, CHMOD, TO_DIR, TO_LINK, TOUCH };

static void commit(int dir, enum deed deed)
{
    switch (deed) {
    case LEAVE:
        return;
    case WRITE_A:
        make_file(dir, "x", "AAAA");
        return;
    case WRITE_B:
        make_file(dir, "x", "a longer text");
        return;
    case REMOVE:
        CHECK(unlinkat(dir, "x", 0) == 0);
        return;
    case CHMOD:
        CHECK(fchmodat(dir, "x", 0755, 0) == 0);
        return;
    case TO_DIR:
        (void)unlinkat(dir, "x", 0);
        make_file(make_dir(dir, "x"), "inner", "in");
        return;
    case TO_LINK:
        (void)unlinkat(dir, "x", 0);
        CHECK(symlinkat("elsewhere", dir, "x") == 0);
        return;
    case TOUCH:
        CHECK(utimensat(dir, "x", NULL, 0) == 0);
        return;
    }
}

/* What "x" is, as a short text. */
static const char *state_of(int dir)
{
    static char text[128];
    struct stat st;

    if (fstatat(dir, "x", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return "nothing";
    if (S_ISDIR(st.st_mode))
        return exists(dir, "x/inner") ? "directory" : "empty directory";
    if (S_ISLNK(st.st_mode))
        return "link";
    snprintf(text, sizeof text, STR_FMT " %o", STR_ARG(content_of(dir, "x")), st.st_mode & 07777);
    return text;
}

enum { NO_LINE = SYNC_ACTION_COUNT_, D = SYNC_DELETE, F = SYNC_FORCE };
#define NEW true

static const struct sensitive_row {
    bool is_new; /* "x" was on neither side when both agreed */
    enum deed host, box;
    unsigned flags;
    int action;
    const char *then; /* what the host has */
} table[] = {
    /* Only the sandbox did something. */
    { false, LEAVE, LEAVE, D, NO_LINE, "base 644" },
    { false, LEAVE, TOUCH, D, NO_LINE, "base 644" },
    { false, LEAVE, WRITE_A, 0, SYNC_REPLACED, "AAAA 644" },
    { false, LEAVE, WRITE_B, 0, SYNC_REPLACED, "a longer text 644" },
    { false, LEAVE, CHMOD, 0, SYNC_REPLACED, "base 755" },
    { false, LEAVE, TO_LINK, 0, SYNC_REPLACED, "link" },
    { false, LEAVE, TO_DIR, 0, SYNC_REPLACED, "directory" },
    { false, LEAVE, REMOVE, 0, SYNC_KEPT, "base 644" },
    { false, LEAVE, REMOVE, D, SYNC_DELETED, "nothing" },
    { NEW, LEAVE, WRITE_A, 0, SYNC_CREATED, "AAAA 644" },
    { NEW, LEAVE, TO_LINK, 0, SYNC_CREATED, "link" },
    { NEW, LEAVE, TO_DIR, 0, SYNC_CREATED, "directory" },
    /* Only the host did something. */
    { false, WRITE_A, LEAVE, D | F, NO_LINE, "AAAA 644" },
    { false, WRITE_B, LEAVE, D | F, NO_LINE, "a longer text 644" },
    { false, CHMOD, LEAVE, D | F, NO_LINE, "base 755" },
    { false, REMOVE, LEAVE, D | F, NO_LINE, "nothing" },
    { false, TO_DIR, LEAVE, D | F, NO_LINE, "directory" },
    { false, TO_LINK, LEAVE, D | F, NO_LINE, "link" },
    { NEW, WRITE_A, LEAVE, D | F, NO_LINE, "AAAA 644" },
    /* Both did the same. */
    { false, WRITE_A, WRITE_A, D, NO_LINE, "AAAA 644" },
    { false, REMOVE, REMOVE, D, NO_LINE, "nothing" },
    { NEW, WRITE_A, WRITE_A, D, NO_LINE, "AAAA 644" },
    { NEW, TO_LINK, TO_LINK, D, NO_LINE, "link" },
    /* A time is no change. */
    { false, TOUCH, WRITE_A, 0, SYNC_REPLACED, "AAAA 644" },
    { false, TOUCH, REMOVE, D, SYNC_DELETED, "nothing" },
    /* Both did something. */
    { false, WRITE_A, WRITE_B, D, SYNC_CONFLICT, "AAAA 644" },
    { false, WRITE_B, WRITE_A, D, SYNC_CONFLICT, "a longer text 644" },
    { false, CHMOD, WRITE_A, D, SYNC_CONFLICT, "base 755" },
    { false, WRITE_A, REMOVE, D, SYNC_CONFLICT, "AAAA 644" },
    { false, WRITE_A, REMOVE, 0, SYNC_CONFLICT, "AAAA 644" },
    { false, REMOVE, WRITE_A, D, SYNC_CONFLICT, "nothing" },
    { false, TO_LINK, WRITE_A, D, SYNC_CONFLICT, "link" },
    { false, WRITE_A, TO_LINK, D, SYNC_CONFLICT, "AAAA 644" },
    { false, TO_DIR, WRITE_A, D, SYNC_CONFLICT, "directory" },
    { false, WRITE_A, TO_DIR, D, SYNC_CONFLICT, "AAAA 644" },
    { NEW, WRITE_A, WRITE_B, D, SYNC_CONFLICT, "AAAA 644" },
    { NEW, TO_DIR, WRITE_B, D, SYNC_CONFLICT, "directory" },
    { NEW, WRITE_A, TO_DIR, D, SYNC_CONFLICT, "AAAA 644" },
    /* And the sandbox shall win. */
    { false, WRITE_A, WRITE_B, F, SYNC_OVERWRITTEN, "a longer text 644" },
    { false, CHMOD, WRITE_A, F, SYNC_OVERWRITTEN, "AAAA 644" },
    { false, WRITE_A, REMOVE, F, SYNC_KEPT, "AAAA 644" },
    { false, WRITE_A, REMOVE, F | D, SYNC_OVERWRITTEN, "nothing" },
    { false, REMOVE, WRITE_A, F, SYNC_OVERWRITTEN, "AAAA 644" },
    { false, TO_LINK, WRITE_A, F, SYNC_OVERWRITTEN, "AAAA 644" },
    { false, WRITE_A, TO_LINK, F, SYNC_OVERWRITTEN, "link" },
    { false, WRITE_A, TO_DIR, F, SYNC_OVERWRITTEN, "directory" },
    { NEW, WRITE_A, WRITE_B, F, SYNC_OVERWRITTEN, "a longer text 644" },
    /* But what the host put into a directory is never in the way of a file. */
    { false, TO_DIR, WRITE_A, F | D, SYNC_CONFLICT, "directory" },
    { NEW, TO_DIR, WRITE_A, F | D, SYNC_CONFLICT, "directory" },
};

static struct world *prepare(const struct sensitive_row *row)
{
    struct world *w = world_make();

    if (!row->is_new)
        make_file(w->host, "x", "base");
    make_file(w->host, "other", "other");
    world_send(w);
    commit(w->host, row->host);
    commit(w->box, row->box);
    return w;
}

static void check_line(const struct sensitive_row *row, size_t i)
{
    if (row->action == NO_LINE ? lines_said() != 0 : !said((enum sync_action)row->action, "x"))
        FAIL("row %zu: %u lines", i, lines_said());
}

/* Each row as it is, then again: an agreement stays one, and a conflict does too. */
TEST(the_table)
{
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct sensitive_row *row = &table[i];
        struct world *w = prepare(row);

        CHECK_OK(world_receive(w, row->flags), w->e);
        check_line(row, i);
        if (strcmp(state_of(w->host), row->then) != 0)
            FAIL("row %zu: the host has %s, not %s", i, state_of(w->host), row->then);
        CHECK(w->report.manifest);
        CHECK_OK(world_receive(w, row->flags), w->e);
        if (row->action == SYNC_CONFLICT || row->action == SYNC_KEPT)
            check_line(row, i);
        else if (lines_said() != 0)
            FAIL("row %zu: %u lines the second time", i, lines_said());
        if (strcmp(state_of(w->host), row->then) != 0)
            FAIL("row %zu: the host has %s the second time", i, state_of(w->host));
        CHECK_STR(content_of(w->host, "other"), "other");
        CHECK(shell("test -z \"$(find %s/host -name '.sandboxer*')\"", w->s.path));
    }
}

TEST(the_table_without_doing_it)
{
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct sensitive_row *row = &table[i];
        struct world *w = prepare(row);
        char before[128];

        CHECK(str_copy(str_from(state_of(w->host)), before, sizeof before));
        CHECK_OK(world_receive(w, row->flags | SYNC_DRY_RUN), w->e);
        CHECK(!w->report.manifest);
        if (strcmp(row->then, "directory") != 0) /* whether it is empty shows only in the end */
            check_line(row, i);
        CHECK_STR(str_from(state_of(w->host)), before);
    }
}

TEST(there_and_back_without_a_change)
{
    struct world *w = world_make();

    sample_tree(&w->s);
    CHECK(shell("cd %s && rm -r host && mv src host", w->s.path));
    w->host = open_dir(w->s.dir, "host");
    CHECK(shell("cd %s && cp -a host before", w->s.path));
    world_send(w);
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK_INT(lines_said(), 0);
    CHECK(shell("cd %s && diff -r --no-dereference before host", w->s.path));
}

TEST(a_session)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir -p src/deep old && echo 1 >src/a && echo 2 >src/deep/b &&"
                " echo 3 >old/c && ln -s src/a link && head -c 200000 /dev/zero >big",
                w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && echo changed >src/a && mkdir -p new/dir && echo n >new/dir/f &&"
                " rm -r old && chmod +x src/deep/b && ln -sf src/deep/b link &&"
                " printf x | dd of=big bs=1 seek=150000 conv=notrunc 2>/dev/null &&"
                " chmod 700 src && touch -d @1000000 src/a",
                w->s.path));
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK(shell("cd %s && diff -r --no-dereference host box", w->s.path));
    CHECK(shell("cd %s && test \"$(stat -c %%Y host/src/a)\" = 1000000", w->s.path));
    CHECK_INT(mode_of(w->host, "src/deep/b"), 0755);
    CHECK_INT(mode_of(w->host, "src"), 0700);
    CHECK(said(SYNC_DELETED, "old/c") && said(SYNC_DELETED, "old"));
    CHECK(said(SYNC_CREATED, "new/dir/f") && said(SYNC_REPLACED, "big"));
    CHECK_INT(w->report.count[SYNC_CONFLICT] + w->report.count[SYNC_FAILED], 0);
}

TEST(a_directory_becomes_a_file)
{
    struct world *w = world_make();

    CHECK(
        shell("cd %s/host && mkdir -p d/e && echo 1 >d/e/f && mkdir k && echo 1 >k/f", w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && rm -r d k && echo file >d && ln -s d k", w->s.path));
    make_file(w->host, "k/mine", "x");
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK_STR(content_of(w->host, "d"), "file\n");
    CHECK(said(SYNC_REPLACED, "d") && said(SYNC_DELETED, "d/e/f"));
    CHECK(said(SYNC_CONFLICT, "k"));
    CHECK_STR(content_of(w->host, "k/mine"), "x");
    CHECK(shell("test -z \"$(find %s/host -name '.sandboxer*')\"", w->s.path));
}

TEST(a_directory_with_files_of_the_host_is_not_deleted)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir d && echo 1 >d/f", w->s.path));
    world_send(w);
    CHECK(shell("cd %s && rm -r box/d && echo 2 >host/d/mine", w->s.path));
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK(!exists(w->host, "d/f") && exists(w->host, "d/mine"));
    CHECK(said(SYNC_CONFLICT, "d"));
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK_INT(lines_said(), 0);
}

TEST(what_the_host_deleted_stays_deleted)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir d && echo 1 >d/f && echo 2 >d/g", w->s.path));
    world_send(w);
    CHECK(shell("cd %s && rm -r host/d && echo changed >box/d/g && echo new >box/d/h", w->s.path));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
        CHECK(!exists(w->host, "d"));
        CHECK(said(SYNC_CONFLICT, "d/g") && said(SYNC_CONFLICT, "d/h"));
        CHECK_INT(lines_said(), 2);
    }
}

TEST(sensitive_names_need_a_flag_of_their_own)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir -p .git/hooks .git/refs/heads && echo a >.git/config &&"
                " echo a >.git/hooks/pre-commit && echo a >.git/refs/heads/main",
                w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && echo evil >.git/config && echo evil >.git/hooks/post-checkout &&"
                " rm .git/hooks/pre-commit && echo b >.git/refs/heads/main && mkdir sub &&"
                " echo 'gitdir: evil' >sub/.git && ln -s x .envrc",
                w->s.path));
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK_STR(content_of(w->host, ".git/config"), "a\n");
    CHECK(!exists(w->host, ".git/hooks/post-checkout") && !exists(w->host, "sub/.git"));
    CHECK(exists(w->host, ".git/hooks/pre-commit") && !exists(w->host, ".envrc"));
    CHECK_STR(content_of(w->host, ".git/refs/heads/main"), "b\n");
    CHECK_INT(w->report.count[SYNC_SENSITIVE], 5);
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_ALLOW_SENSITIVE), w->e);
    CHECK_INT(w->report.count[SYNC_SENSITIVE], 0);
    CHECK_STR(content_of(w->host, ".git/config"), "evil\n");
    CHECK(!exists(w->host, ".git/hooks/pre-commit"));
}

/* Also where nothing that was moved could have stayed inside. */
TEST(a_held_name_is_not_deleted)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && echo a >.envrc && echo a >a.txt", w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && rm .envrc a.txt", w->s.path));
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK(exists(w->host, ".envrc") && said(SYNC_SENSITIVE, ".envrc"));
}

TEST(held_names_are_accepted_one_by_one)
{
    static const char *const accept[] = { ".cargo", "sub/.envrc" };
    struct world *w = world_make();

    world_send(w);
    CHECK(shell("cd %s/box && mkdir -p .cargo sub && echo a >.cargo/config.toml &&"
                " echo a >.cargoX && echo a >sub/.envrc && echo a >.envrc && echo a >Makefile",
                w->s.path));
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK_INT(w->report.count[SYNC_SENSITIVE], 4);
    CHECK(exists(w->host, "Makefile"));
    w->options.accept = accept;
    w->options.n_accept = COUNT_OF(accept);
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK(exists(w->host, ".cargo/config.toml") && exists(w->host, "sub/.envrc"));
    CHECK(said(SYNC_SENSITIVE, ".cargoX") && said(SYNC_SENSITIVE, ".envrc"));
    CHECK(!exists(w->host, ".cargoX") && !exists(w->host, ".envrc"));
}

TEST(only_accepted_paths_are_applied)
{
    static const char *const accept[] = { "b.txt", "new", "new/one", "gone", ".envrc" };
    struct world *w = world_make();

    CHECK(shell("cd %s/host && echo a >a.txt && echo a >b.txt && echo a >c.txt && echo a >gone &&"
                " echo a >gone2",
                w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && echo b >a.txt && echo b >b.txt && rm gone gone2 && mkdir new &&"
                " echo b >new/one && echo b >new/two && echo b >.envrc && echo b >c.txt",
                w->s.path));
    CHECK(shell("cd %s/host && echo h >c.txt", w->s.path));
    w->options.accept = accept;
    w->options.n_accept = COUNT_OF(accept);
    CHECK_OK(world_receive(w, SYNC_ONLY_ACCEPTED | SYNC_DELETE), w->e);
    CHECK_STR(content_of(w->host, "b.txt"), "b\n");
    CHECK_STR(content_of(w->host, "new/one"), "b\n");
    CHECK_STR(content_of(w->host, ".envrc"), "b\n");
    CHECK(!exists(w->host, "gone"));
    /* The others stay, without a line; a later call finds them. */
    CHECK_STR(content_of(w->host, "a.txt"), "a\n");
    CHECK_STR(content_of(w->host, "c.txt"), "h\n");
    CHECK(exists(w->host, "gone2") && !exists(w->host, "new/two"));
    CHECK_INT(w->report.count[SYNC_CONFLICT] + w->report.count[SYNC_SENSITIVE], 0);
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK_STR(content_of(w->host, "a.txt"), "b\n");
    CHECK(!exists(w->host, "gone2") && exists(w->host, "new/two"));
    CHECK(said(SYNC_OVERWRITTEN, "c.txt"));
}

/* A directory that is accepted brings none of its files along, and a file its parents. */
TEST(an_accepted_path_includes_its_parents_alone)
{
    static const char *const dir[] = { "new" }, *const file[] = { "other/deep/file" };
    struct world *w = world_make();

    world_send(w);
    CHECK(shell("cd %s/box && mkdir -p new other/deep && echo b >new/f && echo b >other/deep/file",
                w->s.path));
    w->options.accept = dir;
    w->options.n_accept = 1;
    CHECK_OK(world_receive(w, SYNC_ONLY_ACCEPTED), w->e);
    CHECK(exists(w->host, "new") && !exists(w->host, "new/f") && !exists(w->host, "other"));
    w->options.accept = file;
    CHECK_OK(world_receive(w, SYNC_ONLY_ACCEPTED), w->e);
    CHECK(exists(w->host, "other/deep/file") && !exists(w->host, "new/f"));
}

TEST(new_names_at_the_top_of_a_home_are_held)
{
    static const char *const accept[] = { "new" };
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir .ssh project && echo a >notes.txt", w->s.path));
    world_send(w);
    CHECK(
        shell("cd %s/box && mkdir -p new/deep project/new && echo a >new/deep/f && echo a >file &&"
              " ln -s notes.txt link && echo b >notes.txt && echo a >project/new/f",
              w->s.path));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(world_receive(w, SYNC_FORCE | SYNC_DELETE), w->e);
        CHECK(said(SYNC_SENSITIVE, "new") && said(SYNC_SENSITIVE, "new/deep/f"));
        CHECK(said(SYNC_SENSITIVE, "file") && said(SYNC_SENSITIVE, "link"));
        CHECK(!exists(w->host, "new") && !exists(w->host, "file") && !exists(w->host, "link"));
    }
    CHECK_STR(content_of(w->host, "notes.txt"), "b\n");
    CHECK(exists(w->host, "project/new/f"));
    w->options.accept = accept;
    w->options.n_accept = COUNT_OF(accept);
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK(exists(w->host, "new/deep/f") && !exists(w->host, "file"));
}

/* A world whose host directory is that one beneath a home. */
static struct world *world_in_home(const char *dir)
{
    struct world *w = world_make();
    char path[256];

    CHECK(shell("cd %s && mkdir -p home/%s && echo x >home/.bashrc", w->s.path, dir));
    snprintf(path, sizeof path, "home/%s", dir);
    w->host = open_dir(w->s.dir, path);
    return w;
}

TEST(everything_is_held_in_places_that_programs_obey)
{
    static const char *const places[] = { ".ssh", ".config", ".config/systemd", ".local", "bin" };
    static const char *const accept[] = { "ls", "user/x.service" };

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        struct world *w = world_in_home(places[i]);

        make_file(w->host, "old", "old");
        make_file(w->host, "gone", "gone");
        world_send(w);
        CHECK(shell("cd %s/box && echo evil >ls && mkdir -p user && echo evil >user/x.service &&"
                    " echo evil >old && rm gone",
                    w->s.path));
        CHECK_OK(world_receive(w, SYNC_FORCE | SYNC_DELETE), w->e);
        if (w->report.count[SYNC_SENSITIVE] != 5)
            FAIL("%s: %u held", places[i], (unsigned)w->report.count[SYNC_SENSITIVE]);
        CHECK(!exists(w->host, "ls") && !exists(w->host, "user"));
        CHECK_STR(content_of(w->host, "old"), "old");
        CHECK_STR(content_of(w->host, "gone"), "gone");
        w->options.accept = accept;
        w->options.n_accept = COUNT_OF(accept);
        CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
        CHECK(exists(w->host, "ls") && exists(w->host, "user/x.service"));
        CHECK_STR(content_of(w->host, "old"), "old");
        CHECK_STR(content_of(w->host, "gone"), "gone");
    }
}

TEST(a_project_in_a_home_is_a_project)
{
    struct world *w = world_in_home("project");

    world_send(w);
    CHECK(shell("cd %s/box && mkdir bin && echo a >bin/ls && echo a >Makefile", w->s.path));
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK_INT(w->report.count[SYNC_SENSITIVE], 0);
    CHECK(exists(w->host, "bin/ls"));
}

TEST(settings_of_a_repository_on_the_host_are_held)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir -p fixture.git/objects fixture.git/refs fixture.git/hooks"
                " plain && echo ref >fixture.git/HEAD && echo a >fixture.git/config",
                w->s.path));
    world_send(w);
    CHECK(
        shell("cd %s/box && mkdir plain/hooks && echo evil >fixture.git/config &&"
              " echo evil >fixture.git/hooks/x && echo evil >fixture.git/commondir &&"
              " echo blob >fixture.git/objects/x && echo a >plain/config && echo a >plain/hooks/x",
              w->s.path));
    CHECK_OK(world_receive(w, SYNC_FORCE | SYNC_DELETE), w->e);
    CHECK_INT(w->report.count[SYNC_SENSITIVE], 3);
    CHECK_STR(content_of(w->host, "fixture.git/config"), "a\n");
    CHECK(!exists(w->host, "fixture.git/hooks/x") && !exists(w->host, "fixture.git/commondir"));
    CHECK(exists(w->host, "fixture.git/objects/x"));
    CHECK(exists(w->host, "plain/config") && exists(w->host, "plain/hooks/x"));
}

/* In whichever order HEAD and the settings come, not both arrive. */
TEST(settings_and_head_that_arrive_together)
{
    static const char *const dirs[] = { ".git/refs/evil", "new.git" };

    for (size_t i = 0; i < COUNT_OF(dirs); i++)
        for (int head_first = 0; head_first < 2; head_first++) {
            struct world *w = world_make();
            struct archive *a = archive_new();
            char head[64], config[64];

            snprintf(head, sizeof head, "%s/HEAD", dirs[i]);
            snprintf(config, sizeof config, "%s/config", dirs[i]);
            archive_file(a, head_first ? head : config, "evil");
            archive_file(a, head_first ? config : head, "evil");
            archive_end(a);
            for (int again = 0; again < 2; again++) {
                CHECK_OK(world_receive_archive(w, a, SYNC_FORCE), w->e);
                CHECK(!exists(w->host, head) || !exists(w->host, config));
                CHECK(said(SYNC_SENSITIVE, head_first ? config : head));
            }
        }
}

/* Half of a move must not be applied. */
TEST(a_move_to_a_held_name_deletes_nothing)
{
    static const char *const accept[] = { "other.txt" }, *const all[] = { ".newdot" };
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir -p proj/sub && echo data >proj/a && echo more >proj/sub/b &&"
                " echo edited >edited && echo other >other.txt && echo ren >renamed",
                w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && mv proj .newdot && mv edited .x && echo later >>.x && rm other.txt &&"
                " mv renamed new-name",
                w->s.path));
    for (int again = 0; again < 2; again++) {
        CHECK_OK(world_receive(w, SYNC_DELETE | (again ? SYNC_FORCE : 0)), w->e);
        CHECK_STR(content_of(w->host, "proj/a"), "data\n");
        CHECK_STR(content_of(w->host, "proj/sub/b"), "more\n");
        CHECK(exists(w->host, "edited") && exists(w->host, "other.txt"));
        CHECK(said(SYNC_SENSITIVE, "proj/a") && said(SYNC_SENSITIVE, "proj/sub/b"));
        CHECK(said(SYNC_SENSITIVE, "proj/sub") && said(SYNC_SENSITIVE, "proj"));
        CHECK(said(SYNC_SENSITIVE, "edited") && said(SYNC_SENSITIVE, "other.txt"));
        /* Its content arrived under another name. */
        CHECK(exists(w->host, "new-name") && !exists(w->host, "renamed"));
        CHECK_INT(w->report.count[SYNC_CONFLICT], 0);
    }
    w->options.accept = accept;
    w->options.n_accept = 1;
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK(!exists(w->host, "other.txt") && exists(w->host, "proj/a"));
    /* The moved files arrive, so their old names go; .x is still inside. */
    w->options.accept = all;
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK_STR(content_of(w->host, ".newdot/sub/b"), "more\n");
    CHECK(!exists(w->host, "proj") && exists(w->host, "edited"));
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_ALLOW_SENSITIVE), w->e);
    CHECK(!exists(w->host, "edited") && exists(w->host, ".x"));
}

TEST(a_move_onto_a_conflict_deletes_nothing)
{
    struct world *w = world_make();

    make_file(w->host, "from", "precious");
    make_file(w->host, "to", "old");
    world_send(w);
    CHECK(shell("cd %s && mv box/from box/to && echo changed >host/to", w->s.path));
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK(said(SYNC_CONFLICT, "to") && said(SYNC_SENSITIVE, "from"));
    CHECK_STR(content_of(w->host, "from"), "precious");
    CHECK_OK(world_receive(w, SYNC_DELETE | SYNC_FORCE), w->e);
    CHECK_STR(content_of(w->host, "to"), "precious");
    CHECK(!exists(w->host, "from"));
}

TEST(a_git_directory_cannot_be_replaced_by_a_pointer)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && mkdir .git && echo a >.git/index", w->s.path));
    world_send(w);
    CHECK(shell("cd %s/box && rm -r .git && mkdir evil && ln -s evil .git", w->s.path));
    CHECK_OK(world_receive(w, SYNC_FORCE), w->e);
    CHECK(said(SYNC_SENSITIVE, ".git"));
    CHECK(exists(w->host, ".git/index"));
}

TEST(links_that_lead_out)
{
    struct world *w = world_make();

    CHECK(symlinkat("/etc", w->host, "mine") == 0);
    world_send(w);
    CHECK(shell("cd %s/box && ln -s /etc/passwd abs && mkdir d && ln -s ../../x d/up &&"
                " ln -s ../ok d/in && ln -s a/../../x tricky",
                w->s.path));
    CHECK_OK(world_receive(w, SYNC_FORCE | SYNC_DELETE), w->e);
    CHECK(said(SYNC_REFUSED, "abs") && said(SYNC_REFUSED, "d/up"));
    CHECK(said(SYNC_REFUSED, "tricky") && said(SYNC_CREATED, "d/in"));
    CHECK(!exists(w->host, "abs") && !exists(w->host, "d/up") && !exists(w->host, "tricky"));
    CHECK_STR(target_of(w->host, "mine"), "/etc");
}

TEST(modes_lose_what_gives_rights)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    a->mode = 06755;
    archive_file(a, "f", "x");
    a->mode = 07755;
    archive_dir(a, "d");
    a->mode = 0500;
    archive_dir(a, "ro");
    archive_file(a, "ro/f", "y");
    archive_end(a);
    CHECK_OK(world_receive_archive(w, a, 0), w->e);
    CHECK_INT(mode_of(w->host, "f"), 0755);
    CHECK_INT(mode_of(w->host, "d"), 0755);
    CHECK_INT(mode_of(w->host, "ro"), 0500);
    CHECK_STR(content_of(w->host, "ro/f"), "y");
}

/* --- hostile streams -------------------------------------------------------------------------- */

TEST(paths_that_lead_out)
{
    static const char *const paths[] = { "../x", "a/../../x", "..", "/../x" };

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct world *w = world_make();
        struct archive *a = archive_new();

        archive_file(a, paths[i], "evil");
        archive_end(a);
        CHECK_INT(world_receive_archive(w, a, SYNC_FORCE), -ERR_DENIED);
        CHECK(!exists(w->s.dir, "x"));
    }
}

TEST(an_absolute_path_is_beneath_the_directory)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_file(a, "/abs/f", "x");
    archive_end(a);
    CHECK_OK(world_receive_archive(w, a, 0), w->e);
    CHECK_STR(content_of(w->host, "abs/f"), "x");
}

TEST(what_is_not_beneath_the_top)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_dir(a, "box/");
    archive_file(a, "boxes/f", "x");
    archive_end(a);
    w->options.top = "box";
    CHECK_INT(world_receive_fd(w, archive_fd(a), 0), -ERR_INVALID);
    CHECK(!exists(w->host, "f") && !exists(w->host, "es"));
}

TEST(a_file_through_a_link)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    make_dir(w->host, "victim");
    CHECK(symlinkat("victim", w->host, "hosts") == 0);
    archive_dir(a, "real");
    archive_link(a, '2', "link", "real");
    archive_file(a, "link/f", "evil");
    archive_file(a, "hosts/f", "evil");
    archive_end(a);
    CHECK_OK(world_receive_archive(w, a, 0), w->e);
    CHECK(said(SYNC_REFUSED, "link/f") && said(SYNC_CONFLICT, "hosts"));
    CHECK(said(SYNC_CONFLICT, "hosts/f"));
    CHECK(!exists(w->host, "real/f") && !exists(w->host, "victim/f"));
    CHECK_STR(target_of(w->host, "hosts"), "victim");
}

TEST(names_that_come_twice)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_file(a, "f", "first");
    archive_file(a, "f", "second");
    archive_dir(a, "f");
    archive_file(a, "f/x", "x");
    archive_end(a);
    CHECK_OK(world_receive_archive(w, a, SYNC_FORCE), w->e);
    CHECK_STR(content_of(w->host, "f"), "first");
    CHECK_INT(w->report.count[SYNC_REFUSED], 3);
}

TEST(what_is_not_mirrored)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_link(a, '3', "char", "");
    archive_link(a, '4', "block", "");
    archive_link(a, '6', "fifo", "");
    archive_file(a, "f", "x");
    archive_link(a, '1', "hard", "f");
    archive_file(a, ".sandboxer-mirror-0123456789abcdef", "x");
    archive_end(a);
    CHECK_OK(world_receive_archive(w, a, SYNC_FORCE), w->e);
    CHECK_INT(w->report.count[SYNC_REFUSED], 5);
    CHECK(shell("test \"$(ls -A %s/host)\" = f", w->s.path));
}

TEST(limits_end_the_call)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_file(a, "a/b/c", "12345678");
    archive_file(a, "d", "12345678");
    archive_end(a);
    w->options.limits = (struct sync_limits){ .bytes = 15 };
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .entries = 3 };
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .depth = 2 };
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .path = 4 };
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_TOO_BIG);
    w->options.limits = (struct sync_limits){ .path = 5, .depth = 3, .entries = 4, .bytes = 16 };
    CHECK_OK(world_receive_archive(w, a, 0), w->e);
}

TEST(a_size_that_nobody_has)
{
    struct world *w = world_make();
    struct archive *a = archive_new();

    archive_head(a, '0', "huge", "", 077777777777LL);
    archive_data(a, "x", 1);
    archive_end(a);
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_INVALID); /* 8 GiB, and then not there */
    archive_new();
    archive_pax(a, "size", "9000000000000000000");
    archive_head(a, '0', "huge", "", 0);
    archive_end(a);
    CHECK_INT(world_receive_archive(w, a, 0), -ERR_TOO_BIG);
    CHECK(shell("test -z \"$(ls -A %s/host)\"", w->s.path));
}

TEST(a_stream_that_is_cut_off_deletes_nothing)
{
    struct world *w = world_make();
    struct archive *a = archive_new();
    size_t whole;

    make_file(w->host, "keep", "k");
    make_file(w->host, "f", "old");
    make_file(make_dir(w->host, "dir"), "inner", "i");
    world_send(w);
    archive_file(a, "f", "new content");
    archive_file(a, "dir", "now a file");
    whole = a->n;
    archive_end(a);
    for (size_t n = 0; n < whole + 1; n += 256) {
        int fd = archive_fd(a);

        CHECK(ftruncate(fd, (off_t)n) == 0);
        w->options.top = NULL;
        CHECK(world_receive_fd(w, fd, SYNC_DELETE | SYNC_FORCE) < 0);
        CHECK(exists(w->host, "keep") && exists(w->host, "dir/inner"));
        CHECK(w->report.manifest);
        CHECK(shell("test -z \"$(find %s/host -name '.sandboxer*')\"", w->s.path));
        close(fd);
    }
    CHECK_STR(content_of(w->host, "f"), "new content");
    CHECK_OK(world_receive_archive(w, a, SYNC_DELETE), w->e);
    CHECK_STR(content_of(w->host, "dir"), "now a file");
    CHECK(!exists(w->host, "keep"));
}

/* --- others at work --------------------------------------------------------------------------- */

static enum deed pause_deed;

static void act_in_pause(void *ctx, const char *path)
{
    const struct world *w = ctx;

    if (strcmp(path, "x") == 0)
        commit(w->host, pause_deed);
}

static struct world *raced(bool is_new, enum deed box, enum deed host)
{
    struct sensitive_row row = { .is_new = is_new, .box = box };
    struct world *w = prepare(&row);

    pause_deed = host;
    w->options.pause = act_in_pause;
    w->options.ctx = w;
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    return w;
}

TEST(the_host_writes_at_the_last_moment)
{
    static const struct {
        bool is_new;
        enum deed box, host;
        const char *then;
    } races[] = {
        { false, WRITE_A, WRITE_B, "a longer text 644" },
        { false, WRITE_A, REMOVE, "nothing" },
        { false, WRITE_A, TO_DIR, "directory" },
        { false, WRITE_A, CHMOD, "base 755" },
        { false, TO_DIR, WRITE_B, "a longer text 644" },
        { false, TO_LINK, WRITE_B, "a longer text 644" },
        { false, REMOVE, WRITE_B, "a longer text 644" },
        { false, REMOVE, TO_DIR, "directory" },
        { NEW, WRITE_A, WRITE_B, "a longer text 644" },
        { NEW, TO_LINK, TO_DIR, "directory" },
    };

    for (size_t i = 0; i < COUNT_OF(races); i++) {
        struct world *w = raced(races[i].is_new, races[i].box, races[i].host);

        if (!said(SYNC_CONFLICT, "x"))
            FAIL("race %zu: no conflict", i);
        if (strcmp(state_of(w->host), races[i].then) != 0)
            FAIL("race %zu: the host has %s, not %s", i, state_of(w->host), races[i].then);
        CHECK(shell("test -z \"$(find %s/host -name '.sandboxer*')\"", w->s.path));
    }
}

static void stop_in_pause(void *ctx, const char *path)
{
    if (strcmp(path, ctx) == 0)
        raise(SIGKILL);
}

static void die_at(struct world *w, const char *name)
{
    char copy[8];
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        CHECK(str_copy(str_from(name), copy, sizeof copy));
        w->options.pause = stop_in_pause;
        w->options.ctx = copy;
        world_receive(w, SYNC_DELETE);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

/* Dies right before a file is exchanged, or deleted; the next run finishes the work. */
TEST(death_at_any_file)
{
    static const char *const names[] = { "a", "b", "gone" };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct world *w = world_make();

        CHECK(shell("cd %s/host && echo old | tee a b gone >/dev/null", w->s.path));
        world_send(w);
        CHECK(shell("cd %s/box && echo newer | tee a b >/dev/null && rm gone", w->s.path));
        die_at(w, names[i]);
        CHECK_STR(content_of(w->host, names[i]), "old\n");
        CHECK(shell("test $(find %s/host -name '.sandboxer-mirror-*' | wc -l) = %d", w->s.path,
                    strcmp(names[i], "gone") != 0));
        CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
        CHECK(shell("cd %s && diff -r host box", w->s.path));
        CHECK_INT(w->report.count[SYNC_CONFLICT], 0);
    }
}

/* Killed after a random number of system calls' time; whatever happened, files are whole. */
TEST(death_at_any_time)
{
    struct world *w = world_make();

    CHECK(shell("cd %s/host && for i in $(seq 60); do printf old >f$i; done", w->s.path));
    world_send(w);
    CHECK(
        shell("cd %s/box && for i in $(seq 60); do printf newer >f$i; done; rm f7 f8", w->s.path));
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            world_receive(w, SYNC_DELETE);
            _exit(0);
        }
        usleep((useconds_t)i * 200);
        kill(pid, SIGKILL);
        CHECK(waitpid(pid, NULL, 0) == pid);
        CHECK(
            shell("cd %s/host && for f in f*; do case $(cat $f) in old|newer) ;; *) exit 1;; esac;"
                  " done && test $(ls | wc -l) -ge 58",
                  w->s.path));
    }
    CHECK_OK(world_receive(w, SYNC_DELETE), w->e);
    CHECK(shell("cd %s && diff -r host box && test -z \"$(find host -name '.sandboxer*')\"",
                w->s.path));
    CHECK_INT(w->report.count[SYNC_CONFLICT], 0);
}

TEST(one_at_a_time)
{
    struct world *w = world_make();
    int other = open_dir(w->s.dir, "host");

    CHECK(flock(other, LOCK_EX) == 0);
    CHECK_INT(world_receive(w, 0), -ERR_BUSY);
}

TEST(a_directory_that_is_closed_to_us)
{
    struct world *w;

    become_user();
    w = world_make();
    CHECK(shell("cd %s/host && mkdir ro && echo 1 >ro/f && echo 1 >g", w->s.path));
    world_send(w);
    CHECK(shell("cd %s && chmod 555 host/ro box/ro && echo 22 >box/ro/f && echo 22 >box/g",
                w->s.path));
    CHECK_OK(world_receive(w, 0), w->e);
    CHECK(said(SYNC_FAILED, "ro/f") && said(SYNC_REPLACED, "g"));
    CHECK_STR(content_of(w->host, "ro/f"), "1\n");
    CHECK(shell("chmod 755 %s/host/ro %s/box/ro", w->s.path, w->s.path));
}

TEST(a_manifest_that_is_none_changes_nothing)
{
    struct world *w = world_make();

    make_file(w->box, "f", "x");
    w->manifest = memory_file();
    CHECK_INT(world_receive(w, 0), -ERR_INVALID);
    CHECK(!exists(w->host, "f") && !w->report.manifest);
}
