/* SPDX-License-Identifier: Apache-2.0 */
/* File operations while a program inside swaps directories for links under them: nothing outside
 * the sandbox is read or written, and what walks or fills a tree does not leave it. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"

enum { ROUNDS = 25 };

static const char secret[] = "the canary sings only outside";

/* On the host: shared/ is mounted into the sandbox, canary/ is not. */
struct host {
    char dir[64], shared[80], canary[80], song[96];
};

static void put(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void host_init(struct host *h)
{
    *h = (struct host){ .dir = "/tmp/sandboxer-test-XXXXXX" };
    CHECK(mkdtemp(h->dir));
    snprintf(h->shared, sizeof h->shared, "%s/shared", h->dir);
    snprintf(h->canary, sizeof h->canary, "%s/canary", h->dir);
    snprintf(h->song, sizeof h->song, "%s/file", h->canary);
    umask(0);
    CHECK(chmod(h->dir, 0777) == 0);
    CHECK(mkdir(h->shared, 0777) == 0 && mkdir(h->canary, 0777) == 0);
    put(h->song, secret);
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    CHECK(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void expect_untouched(const char *dir, const char *file)
{
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    char text[sizeof secret + 1] = "";

    CHECK_INT(count_entries(dir), 1);
    CHECK(fd >= 0 && read(fd, text, sizeof text) == (ssize_t)strlen(secret));
    CHECK_STR(str_from(text), secret);
}

/* As root we remove what the sandbox's ids have made as well. */
static void host_done(struct host *h)
{
    char command[128];

    unlink(h->song);
    snprintf(command, sizeof command, "rm -rf %s", h->dir);
    CHECK_INT(system(command), 0);
}

static void expect_unheard(const struct outcome *o)
{
    if (o->out.n && memmem(o->out.p, o->out.n, secret, strlen(secret)))
        FAIL("something read the canary");
}

/* In `place`: a directory `dir` and a link `link` to the target, with a program that swaps them. */
static void start_swapping(struct box *b, const char *place, const char *target, struct job *ret)
{
    char script[400];

    snprintf(script, sizeof script,
             "cd %s && rm -rf ./* && mkdir -p dir/file.d && echo inside >dir/file && "
             "ln -s '%s' link && exec /opt/inside swap dir link",
             place, target);
    CHECK(sh_job(b, script, ret));
    await_word(ret->out, "ready");
}

static void stop_swapping(struct box *b, struct job *j)
{
    struct control_exited end;

    CHECK_INT(box_kill(b, j->proc, SIGKILL, true), 0);
    job_end(b, j, &end);
    CHECK_INT(end.how, CONTROL_BY_SIGNAL); /* it was at it until then */
}

static void run_round(struct box *b, const char *place, struct str archive)
{
    static const uint32_t written[] = { 4, 0x65746972, 0 }; /* "rite" */
    static const struct {
        enum start_what what;
        const char *path, *to;
    } operations[] = {
        { START_READ, "dir/file", NULL },
        { START_WRITE, "dir/file", NULL },
        { START_LIST, "dir", NULL },
        { START_STAT, "dir/file", NULL },
        { START_MKDIR, "dir/sub/sub", NULL },
        { START_RENAME, "dir/sub", "dir/bus" },
        { START_REMOVE, "dir/bus", NULL },
        { START_PACK, "dir/file.d", NULL },
        { START_PACK, ".", NULL },
        { START_UNPACK, "dir/file.d", NULL },
    };

    for (size_t i = 0; i < COUNT_OF(operations); i++) {
        const char *argv[] = { operations[i].path, operations[i].to, NULL };
        struct process_start s = { .what = operations[i].what, .argv = argv, .cwd = place };
        struct outcome o AUTO(outcome_done) = { 0 };
        struct str input = s.what == START_UNPACK
                               ? archive
                               : (struct str){ (const char *)written, sizeof written };

        if (s.what == START_WRITE || s.what == START_UNPACK)
            s.flags = START_STDIN;
        box_run(b, &s, input, &o);
        expect_unheard(&o);
    }
}

static void make_archive(struct box *b, struct outcome *ret)
{
    CHECK_SH(b, "mkdir -p /tmp/a/dir && echo new >/tmp/a/dir/file", 0, "");
    box_file(b, START_PACK, "/tmp/a/dir", NULL, STR(""), ret);
    CHECK(!ret->failed && ret->end.status == 0 && ret->out.n > 0);
}

BOX_TEST(nothing_leads_outside)
{
    struct outcome archive AUTO(outcome_done) = { 0 };
    const char *targets[] = {
        "/proc/1/root", "/proc/self/root", "/", "/etc", "../../canary", NULL
    };
    int etc = count_entries("/etc");
    struct host h;
    struct box b;

    host_init(&h);
    targets[5] = h.canary; /* its name on the host means nothing inside */
    box_prepare(&b);
    box_mount(&b, h.shared, "/mnt/shared", true);
    box_build(&b);
    make_archive(&b, &archive);
    CHECK_SH(&b, "mkdir -p /tmp/work", 0, "");
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        const char *place = i % 2 ? "/tmp/work" : "/mnt/shared";
        struct job j;

        start_swapping(&b, place, targets[i], &j);
        for (int round = 0; round < ROUNDS; round++)
            run_round(&b, place, buf_str(&archive.out));
        stop_swapping(&b, &j);
        expect_untouched(h.canary, h.song);
    }
    CHECK_INT(count_entries("/etc"), etc);
    CHECK_SH(&b, "echo lives", 0, "lives\n");
    box_close(&b);
    host_done(&h);
}

/* The canary is inside now, where its user may do anything to it: but the tree that is removed,
 * packed or filled only has a link to it. */
BOX_TEST(a_tree_is_not_left_through_a_link)
{
    static const char *const cwd = "/tmp/work/top";
    struct outcome archive AUTO(outcome_done) = { 0 };
    struct host h;
    struct box b;

    host_init(&h);
    box_prepare(&b);
    box_mount(&b, h.canary, "/mnt/canary", true);
    box_build(&b);
    make_archive(&b, &archive);
    for (int round = 0; round < ROUNDS; round++) {
        static const char *const all[] = { "/tmp/work/top", NULL }, *const here[] = { ".", NULL };
        struct process_start s = { .argv = here, .cwd = cwd };
        struct outcome o AUTO(outcome_done) = { 0 };
        struct job j;

        CHECK_SH(&b, "mkdir -p /tmp/work/top", 0, "");
        start_swapping(&b, cwd, "/mnt/canary", &j);
        s.what = START_PACK;
        s.argv = all;
        box_run(&b, &s, STR(""), &o);
        expect_unheard(&o);
        s.what = START_UNPACK;
        s.argv = here;
        s.flags = START_STDIN;
        box_run(&b, &s, buf_str(&archive.out), &o);
        expect_untouched(h.canary, h.song);
        s.what = START_REMOVE;
        s.argv = all;
        s.flags = 0;
        box_run(&b, &s, STR(""), &o);
        expect_untouched(h.canary, h.song);
        stop_swapping(&b, &j);
    }
    box_close(&b);
    host_done(&h);
}
