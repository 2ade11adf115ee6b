/* SPDX-License-Identifier: Apache-2.0 */
/* File operations of PID 1, with the rights of the user they are for. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "lib/ipc/upload.h"

/* Data as WRITE takes it: lengths and bytes, and a length of 0 at the end. */
static struct str chunks(struct buf *room, struct str data, size_t chunk, bool complete)
{
    uint32_t end = 0;

    buf_clear(room);
    while (data.n) {
        uint32_t n = (uint32_t)(data.n < chunk ? data.n : chunk);

        CHECK(buf_add(room, (struct str){ (const char *)&n, sizeof n }) >= 0);
        CHECK(buf_add(room, (struct str){ data.p, n }) >= 0);
        data = (struct str){ data.p + n, data.n - n };
    }
    if (complete)
        CHECK(buf_add(room, (struct str){ (const char *)&end, sizeof end }) >= 0);
    return buf_str(room);
}

static void write_file(struct box *b, const char *path, struct str data, struct outcome *ret)
{
    struct buf room AUTO(buf_done) = BUF_INIT(32 << 20);

    box_file(b, START_WRITE, path, NULL, chunks(&room, data, 100000, true), ret);
}

static bool good(const struct outcome *o)
{
    return !o->failed && o->end.how == CONTROL_BY_EXIT && o->end.status == 0;
}

#define CHECK_GOOD(o)                                                                              \
    do {                                                                                           \
        if (!good(&(o)))                                                                           \
            FAIL("%s: %u/%d %s", (o).failed ? (o).failure.msg : "it started", (o).end.how,         \
                 (o).end.status, (o).end.msg);                                                     \
    } while (0)

/* It ran, failed, and says why. */
#define CHECK_BAD(o, errnum)                                                                       \
    do {                                                                                           \
        CHECK(!(o).failed);                                                                        \
        CHECK_INT((o).end.status, 1);                                                              \
        CHECK_INT((o).end.sys, (errnum));                                                          \
        CHECK((o).end.msg[0]);                                                                     \
    } while (0)

BOX_TEST(what_is_written_is_read)
{
    static char big[(3 << 20) + 17];
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i ^ (i >> 9));
    box_open(&b);
    write_file(&b, "/tmp/big", (struct str){ big, sizeof big }, &o);
    CHECK_GOOD(o);
    box_file(&b, START_READ, "/tmp/big", NULL, STR(""), &o);
    CHECK_GOOD(o);
    CHECK(o.out.n == sizeof big && memcmp(o.out.p, big, sizeof big) == 0);
    write_file(&b, "/tmp/empty", STR(""), &o);
    CHECK_GOOD(o);
    box_file(&b, START_READ, "/tmp/empty", NULL, STR(""), &o);
    CHECK(good(&o) && o.out.n == 0);
    CHECK_SH(&b, "stat -c %a /tmp/big; ls -A /tmp | wc -l", 0, "644\n2\n");
    box_close(&b);
}

BOX_TEST(reading_what_is_no_file)
{
    static const struct {
        const char *path;
        int sys;
    } cases[] = {
        { "/tmp/none", ENOENT }, { "/tmp", EINVAL }, /* not a regular file */
        { "/dev/null", EINVAL },                     /* nor is a device, */
        { "/tmp/fifo", EINVAL },                     /* nor a pipe, which must not be waited for */
        { "/tmp/loop", ELOOP },  { "/etc/shadow-", ENOENT },
    };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "mkfifo /tmp/fifo; ln -s loop /tmp/loop", 0, "");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct outcome o AUTO(outcome_done) = { 0 };

        box_file(&b, START_READ, cases[i].path, NULL, STR(""), &o);
        if (o.failed || o.end.status != 1 || o.end.sys != cases[i].sys)
            FAIL("%s: status %d, errno %d, %s", cases[i].path, o.end.status, o.end.sys, o.end.msg);
    }
    box_close(&b);
}

BOX_TEST(a_client_that_leaves_early_changes_nothing)
{
    static const char *const path[] = { "/tmp/file", NULL };
    struct process_start s = {
        .what = START_WRITE, .argv = path, .cwd = "/", .flags = START_STDIN
    };
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 20);
    struct outcome o AUTO(outcome_done) = { 0 };
    struct str data = STR("new content");
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "printf old >/tmp/file", 0, "");
    for (size_t n = 0; n <= data.n; n += 3) { /* nothing, or some whole chunks */
        box_run(&b, &s, chunks(&room, (struct str){ data.p, n }, 3, false), &o);
        CHECK_BAD(o, EINVAL);
    }
    chunks(&room, data, 4, true);
    box_run(&b, &s, (struct str){ room.p, 2 }, &o); /* half a length */
    CHECK_BAD(o, EINVAL);
    box_run(&b, &s, (struct str){ room.p, 6 }, &o); /* half a chunk */
    CHECK_BAD(o, EINVAL);
    CHECK_SH(&b, "cat /tmp/file; ls -A /tmp", 0, "oldfile\n");
    write_file(&b, "/tmp/file", data, &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "cat /tmp/file; ls -A /tmp", 0, "new contentfile\n");
    box_close(&b);
}

/* The workload may stop what serves a file operation; then the operation fails, and does not
 * hang. */
BOX_TEST(an_operation_that_is_stopped_fails)
{
    static const char *const path[] = { "/tmp/big", NULL };
    struct process_start s = { .what = START_READ, .argv = path, .cwd = "/" };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;
    struct job j;

    box_open(&b);
    CHECK_SH(&b, "head -c 3000000 /dev/zero >/tmp/big", 0, "");
    CHECK(job_start(&b, &s, &j, NULL)); /* its pipe is full long before its end */
    CHECK_SH(&b, "kill -STOP -1", 0, "");
    job_finish(&b, &j, STR(""), &o);
    CHECK_BAD(o, EBUSY);
    CHECK(o.out.n < 3000000);
    outcome_done(&o);
    o = (struct outcome){ 0 };
    box_file(&b, START_READ, "/tmp/big", NULL, STR(""), &o);
    CHECK_GOOD(o);
    box_close(&b);
}

/* Whoever reads while it is being replaced sees the old or the new, whole. */
BOX_TEST(a_file_is_replaced_at_once)
{
    enum { SIZE = 1 << 20, ROUNDS = 20 };
    static char data[2][SIZE];
    struct outcome o AUTO(outcome_done) = { 0 };
    struct control_exited end;
    struct box b;
    struct job j;

    memset(data[0], 'a', SIZE);
    memset(data[1], 'b', SIZE);
    box_open(&b);
    write_file(&b, "/tmp/file", (struct str){ data[0], SIZE }, &o);
    CHECK(sh_job(&b,
                 "echo ready; while :; do n=$(tr -d a </tmp/file | wc -c); "
                 "[ $n = 0 ] || [ $n = 1048576 ] || exit 1; [ -e /tmp/stop ] && exit 0; done",
                 &j));
    await_word(j.out, "ready");
    for (int i = 0; i < ROUNDS; i++) {
        write_file(&b, "/tmp/file", (struct str){ data[i % 2], SIZE }, &o);
        CHECK_GOOD(o);
    }
    write_file(&b, "/tmp/stop", STR(""), &o);
    job_end(&b, &j, &end);
    CHECK_INT(end.status, 0);
    box_close(&b);
}

BOX_TEST(writing_where_it_cannot_be)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "mkdir /tmp/dir; touch /tmp/dir/x; echo keep >/tmp/target; ln -s target /tmp/link",
             0, "");
    write_file(&b, "/tmp/none/file", STR("x"), &o);
    CHECK_BAD(o, ENOENT);
    write_file(&b, "/tmp/dir", STR("x"), &o);
    CHECK_BAD(o, EISDIR);
    write_file(&b, "/tmp/dir/", STR("x"), &o);
    CHECK_BAD(o, EINVAL);
    write_file(&b, "/tmp/dir/..", STR("x"), &o);
    CHECK_BAD(o, EINVAL);
    write_file(&b, "", STR("x"), &o);
    CHECK_BAD(o, EINVAL);
    write_file(&b, "/usr/bin/new", STR("x"), &o);
    CHECK(!good(&o));
    CHECK_SH(&b, "mkfifo /tmp/fifo; ln -s loop /tmp/loop; ln -s dir /tmp/to-dir", 0, "");
    write_file(&b, "/tmp/fifo", STR("x"), &o);
    CHECK_BAD(o, EINVAL);
    write_file(&b, "/tmp/loop", STR("x"), &o);
    CHECK_BAD(o, ELOOP);
    write_file(&b, "/tmp/to-dir", STR("x"), &o);
    CHECK_BAD(o, EISDIR);
    CHECK_SH(&b, "cat /tmp/target; ls -A /tmp", 0, "keep\ndir\nfifo\nlink\nloop\ntarget\nto-dir\n");
    box_close(&b);
}

BOX_TEST(a_write_goes_through_links)
{
    static const char *const paths[] = { "/tmp/link", "/tmp/chain", "/tmp/d/up", "/tmp/far" };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b,
             "cd /tmp; mkdir d; echo old >target; ln -s target link; ln -s d/up chain; "
             "ln -s ../target d/up; ln -s /tmp/d/../d/up far; ln -s d/new dangling",
             0, "");
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        write_file(&b, paths[i], str_from(paths[i]), &o);
        CHECK_GOOD(o);
        box_file(&b, START_READ, "/tmp/target", NULL, STR(""), &o);
        CHECK_STR(buf_str(&o.out), paths[i]);
    }
    write_file(&b, "/tmp/dangling", STR("made"), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "cd /tmp; cat d/new; find . -type l | wc -l; ls -A . d", 0,
             "made5\n.:\nchain\nd\ndangling\nfar\nlink\ntarget\n\nd:\nnew\nup\n");
    box_close(&b);
}

BOX_TEST(a_write_keeps_the_mode)
{
    static const char *const path[] = { "/tmp/script", NULL };
    struct process_start s = {
        .what = START_WRITE, .argv = path, .cwd = "/", .flags = START_STDIN, .mode = 0600
    };
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 10);
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "cd /tmp; touch script fixed; chmod 755 script; chmod 444 fixed", 0, "");
    write_file(&b, "/tmp/script", STR("x"), &o);
    CHECK_GOOD(o);
    box_file(&b, START_WRITE, "/tmp/fixed", "user.a=b", chunks(&room, STR("x"), 1, true), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "stat -c %a /tmp/script /tmp/fixed", 0, "755\n444\n");
    box_run(&b, &s, chunks(&room, STR("y"), 1, true), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "stat -c %a /tmp/script", 0, "600\n");
    box_close(&b);
}

/* In a directory that everybody may write to, a link of somebody else is a trap. */
BOX_TEST(a_write_follows_no_trap)
{
    static const char *const trap[] = { "/tmp/trap", NULL };
    struct process_start s = {
        .what = START_PROGRAM,
        .cwd = "/",
        .user = "1234",
        .argv = (const char *const[]){ "ln", "-s", "/run/secret", "/tmp/trap", NULL },
    };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    if (!box_is_root())
        SKIP("a plain user's sandbox has one identity");
    box_open(&b);
    CHECK_SH(&b, "echo keep >/run/secret", 0, "");
    box_run(&b, &s, STR(""), &o);
    CHECK_GOOD(o);
    write_file(&b, trap[0], STR("x"), &o);
    CHECK_BAD(o, EACCES);
    CHECK_SH(&b, "cat /run/secret", 0, "keep\n");
    box_close(&b);
}

/* One record of LIST or STAT. */
static const struct control_entry *next_entry(struct str *rest, struct str *name, struct str *link)
{
    static struct control_entry e;

    if (rest->n == 0)
        return NULL;
    CHECK(rest->n >= sizeof e);
    memcpy(&e, rest->p, sizeof e);
    CHECK(rest->n >= sizeof e + e.name_len + e.link_len);
    *name = (struct str){ rest->p + sizeof e, e.name_len };
    *link = (struct str){ name->p + name->n, e.link_len };
    *rest = (struct str){ link->p + link->n, rest->n - sizeof e - e.name_len - e.link_len };
    return &e;
}

BOX_TEST(stat_says_what_is_there)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    const struct control_entry *e;
    struct str rest, name, link;
    struct box b;

    box_open(&b);
    CHECK_SH(&b,
             "printf 12345 >/tmp/file; chmod 640 /tmp/file; touch -d @1700000000 /tmp/file; "
             "ln -s /some/where /tmp/link",
             0, "");
    box_file(&b, START_STAT, "/tmp/file", NULL, STR(""), &o);
    CHECK_GOOD(o);
    rest = buf_str(&o.out);
    e = next_entry(&rest, &name, &link);
    CHECK(e && e->size == 5 && e->mode == (S_IFREG | 0640) && e->uid == 0 && e->nlink == 1);
    CHECK(e->mtime_ns == INT64_C(1700000000) * 1000000000 && rest.n == 0 && link.n == 0);
    CHECK_STR(name, "file");
    box_file(&b, START_STAT, "/tmp/link", NULL, STR(""), &o);
    rest = buf_str(&o.out);
    e = next_entry(&rest, &name, &link);
    CHECK(e && S_ISLNK(e->mode));
    CHECK_STR(link, "/some/where");
    box_file(&b, START_STAT, "/tmp/none", NULL, STR(""), &o);
    CHECK_BAD(o, ENOENT);
    box_file(&b, START_STAT, "/", NULL, STR(""), &o);
    CHECK_GOOD(o);
    box_close(&b);
}

BOX_TEST(links_are_resolved)
{
    static const struct {
        const char *path, *target;
    } cases[] = {
        { "/tmp/d/up", "/tmp/real" },
        { "/tmp/chain", "/tmp/real" },
        { "/tmp/dots", "/tmp/d" },
        { "/tmp/dangling", "" },
        { "/tmp/loop", "" },
        { "/tmp/real", "" },
        { "/tmp/through/up", "/tmp/real" },
    };
    struct box b;

    box_open(&b);
    CHECK_SH(&b,
             "cd /tmp; mkdir d; echo x >real; ln -s ../real d/up; ln -s d/up chain; ln -s ./d/../d "
             "dots; "
             "ln -s none dangling; ln -s loop loop; ln -s d through",
             0, "");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *const path[] = { cases[i].path, NULL };
        struct process_start s = {
            .what = START_STAT, .argv = path, .cwd = "/", .mode = START_RESOLVE
        };
        struct outcome o AUTO(outcome_done) = { 0 };
        struct str rest, name, link;

        box_run(&b, &s, STR(""), &o);
        CHECK_GOOD(o);
        rest = buf_str(&o.out);
        CHECK(next_entry(&rest, &name, &link));
        CHECK_STR(link, cases[i].target);
    }
    box_close(&b);
}

BOX_TEST(a_home_is_what_passwd_says)
{
    struct process_start s = { .what = START_HOME,
                               .argv = (const char *const[]){ NULL },
                               .cwd = "/" };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    box_run(&b, &s, STR(""), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "awk -F: '$3 == 0 { printf \"%s\", $6; exit }' /etc/passwd >/tmp/home", 0, "");
    {
        struct outcome said AUTO(outcome_done) = { 0 };

        box_file(&b, START_READ, "/tmp/home", NULL, STR(""), &said);
        CHECK(o.out.n && str_eq(buf_str(&o.out), buf_str(&said.out)));
    }
    s.user = "nobody-here";
    box_run(&b, &s, STR(""), &o);
    CHECK(o.failed && o.failure.code == ERR_NOT_FOUND);
    CHECK_STR(str_from(o.failure.step), "user");
    box_close(&b);
}

/* More entries than one buffer takes, with names as long as names can be. */
BOX_TEST(a_list_is_complete)
{
    enum { FILES = 1500 };
    static bool seen[FILES];
    struct outcome o AUTO(outcome_done) = { 0 };
    struct str rest, name, link;
    struct box b;
    int n = 0;

    box_open(&b);
    CHECK_SH(&b,
             "mkdir /tmp/d; cd /tmp/d; p=$(printf %0200d 0); i=0; "
             "while [ $i -lt 1500 ]; do : >$p.$i; i=$((i+1)); done",
             0, "");
    box_file(&b, START_LIST, "/tmp/d", NULL, STR(""), &o);
    CHECK_GOOD(o);
    for (rest = buf_str(&o.out); next_entry(&rest, &name, &link); n++) {
        uint64_t number;

        CHECK(name.n > 201 && str_to_u64((struct str){ name.p + 201, name.n - 201 }, &number));
        CHECK(number < FILES && !seen[number]);
        seen[number] = true;
    }
    CHECK_INT(n, FILES);
    box_file(&b, START_LIST, "/etc/passwd", NULL, STR(""), &o);
    CHECK_BAD(o, ENOTDIR);
    box_close(&b);
}

BOX_TEST(directories_are_made_and_trees_removed)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    box_file(&b, START_MKDIR, "/tmp/a/b/c", NULL, STR(""), &o);
    CHECK_GOOD(o);
    box_file(&b, START_MKDIR, "/tmp/a/b/c", NULL, STR(""), &o); /* it is there */
    CHECK_GOOD(o);
    CHECK_SH(&b, "stat -c %a /tmp/a/b; echo x >/tmp/a/file; ln -s /etc /tmp/a/b/etc", 0, "755\n");
    box_file(&b, START_MKDIR, "/tmp/a/file/d", NULL, STR(""), &o);
    CHECK_BAD(o, ENOTDIR);
    box_file(&b, START_MKDIR, "/tmp/a/file", NULL, STR(""), &o);
    CHECK_BAD(o, EEXIST);
    box_file(&b, START_MKDIR, "", NULL, STR(""), &o);
    CHECK_BAD(o, ENOENT);
    box_file(&b, START_REMOVE, "/tmp/a", NULL, STR(""), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "ls -A /tmp; test -e /etc/passwd", 0, "");
    box_file(&b, START_REMOVE, "/tmp/a", NULL, STR(""), &o);
    CHECK(!good(&o));
    box_file(&b, START_REMOVE, "/", NULL, STR(""), &o);
    CHECK(!good(&o));
    box_close(&b);
}

static void run_strings(struct box *b, enum start_what what, const char *const *argv,
                        struct outcome *ret)
{
    struct process_start s = { .what = what, .argv = argv, .cwd = "/" };

    box_run(b, &s, STR(""), ret);
}

#define RUN(what, o, ...) run_strings(&b, (what), (const char *const[]){ __VA_ARGS__, NULL }, (o))

BOX_TEST(permissions)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "echo x >/tmp/file; ln -s file /tmp/link", 0, "");
    RUN(START_PERMIT, &o, "/tmp/link", "mode=0640");
    CHECK_GOOD(o);
    CHECK_SH(&b, "stat -c %a /tmp/file", 0, "640\n");
    RUN(START_PERMIT, &o, "/tmp/none", "mode=0640");
    CHECK_BAD(o, ENOENT);
    /* one bad setting, and none is applied */
    RUN(START_PERMIT, &o, "/tmp/file", "mode=0600", "owner=no-such-user");
    CHECK(!good(&o) && !o.failed);
    RUN(START_PERMIT, &o, "/tmp/file", "mode=0600", "group=no-such-group");
    CHECK(!good(&o) && !o.failed);
    for (size_t i = 0; i < 5; i++) {
        static const char *const bad[] = { "mode=8", "mode=077777", "mode=-1", "mod=1", "x" };

        RUN(START_PERMIT, &o, "/tmp/file", bad[i]);
        CHECK(!good(&o) && !o.failed);
    }
    CHECK_SH(&b, "stat -c %a /tmp/file", 0, "640\n");
    box_close(&b);
}

BOX_TEST(files_become_one)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "printf 1 >/tmp/one; printf 2 >/tmp/two; mkdir /tmp/dir", 0, "");
    RUN(START_COMPOSE, &o, "/tmp/new/all", "/tmp/one", "/tmp/none");
    CHECK_BAD(o, ENOENT);
    CHECK_SH(&b, "cd /tmp; echo *", 0, "dir one two\n"); /* nothing was made, and nothing removed */
    RUN(START_COMPOSE, &o, "/tmp/dir", "/tmp/one");
    CHECK_BAD(o, EISDIR);
    RUN(START_COMPOSE, &o, "/tmp/new/all", "/tmp/one", "/tmp/two", "/tmp/one");
    CHECK_GOOD(o);
    CHECK_SH(&b, "cd /tmp; cat new/all; echo; echo *", 0, "121\ndir new\n");
    RUN(START_COMPOSE, &o, "/tmp/new/all", "/tmp/new/all", "/tmp/new/all");
    CHECK_GOOD(o); /* into one of them */
    CHECK_SH(&b, "cat /tmp/new/all; ls -A /tmp/new", 0, "121121all\n");
    box_close(&b);
}

static void add_record(struct buf *room, enum upload_kind kind, const char *text)
{
    struct upload_head h = { kind, (uint32_t)strlen(text) };

    CHECK(buf_add(room, (struct str){ (const char *)&h, sizeof h }) >= 0);
    CHECK(buf_add(room, str_from(text)) >= 0);
}

static void add_file(struct buf *room, const char *path, const char *data)
{
    add_record(room, UPLOAD_FILE, path);
    if (data[0])
        add_record(room, UPLOAD_DATA, data);
}

/* The files that were added, and are gone then. */
static void upload_files(struct box *b, struct buf *room, const char *attribute, bool complete,
                         struct outcome *ret)
{
    if (complete)
        add_record(room, UPLOAD_COMMIT, "");
    box_file(b, START_UPLOAD, attribute, NULL, buf_str(room), ret);
    buf_clear(room);
}

BOX_TEST(files_are_stored_together)
{
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 20);
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b,
             "cd /tmp; printf old >a; chmod 640 a; ln -s a link; ln -s far/none loose; mkdir far",
             0, "");
    add_file(&room, "/tmp/link", "1");
    add_file(&room, "/tmp/new/er/b", "22");
    add_file(&room, "/tmp/new/empty", "");
    add_file(&room, "/tmp/loose", "333");
    add_file(&room, "/tmp/twice", "4");
    add_file(&room, "/tmp/twice", "5");
    upload_files(&b, &room, "user.kind=a=b", true, &o);
    CHECK_GOOD(o);
    CHECK_SH(&b,
             "cd /tmp; cat a new/er/b new/empty far/none twice; echo; stat -c %a a new new/er/b; "
             "ls -A . new new/er far",
             0,
             "1223335\n640\n755\n644\n.:\na\nfar\nlink\nloose\nnew\ntwice\n\nfar:\nnone\n\nnew:"
             "\nempty\ner\n\nnew/er:\nb\n");
    box_file(&b, START_STAT, "/tmp/new/er/b", NULL, STR(""), &o);
    CHECK_GOOD(o);
    upload_files(&b, &room, NULL, true, &o); /* none */
    CHECK_GOOD(o);
    box_close(&b);
}

BOX_TEST(a_failed_upload_leaves_nothing)
{
    static const struct {
        const char *path, *attribute;
        int sys;
    } cases[] = {
        { NULL, NULL, EINVAL }, /* it breaks off */
        { "/tmp/dir", NULL, EISDIR },
        { "/tmp/a/x", NULL, ENOTDIR },
        { "/tmp/new/er/b/x", NULL, EISDIR }, /* as b is a directory then */
        { "/tmp/new/er/", NULL, EINVAL },
        { "/tmp/new/..", NULL, EINVAL },
        { "/tmp/loop", NULL, ELOOP },
        { "/tmp/fifo", NULL, EINVAL },
        { "relative", NULL, EINVAL },
        { "/tmp/z/../y/x/..", NULL, EINVAL },
        { "/tmp/c", "trusted.kind=x", EINVAL },
        { "/proc/1/c", NULL, ENOENT },
    };
    static const char look[] = "cd /tmp; ls -AR; cat a";
    struct outcome before AUTO(outcome_done) = { 0 };
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 20);
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "cd /tmp; printf old >a; mkdir dir; ln -s loop loop; mkfifo fifo", 0, "");
    sh_run(&b, look, &before);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct outcome o AUTO(outcome_done) = { 0 }, after AUTO(outcome_done) = { 0 };

        add_file(&room, "/tmp/a", "new");
        add_file(&room, "/tmp/new/er/b", "new");
        if (cases[i].path)
            add_file(&room, cases[i].path, "new");
        upload_files(&b, &room, cases[i].attribute, cases[i].path, &o);
        if (o.failed || o.end.status != 1 || o.end.sys != cases[i].sys)
            FAIL("case %zu: status %d, errno %d, %s", i, o.end.status, o.end.sys, o.end.msg);
        sh_run(&b, look, &after);
        CHECK_STR(buf_str(&after.out), before.out.p);
    }
    box_close(&b);
}

/* What cannot be replaced is known before the first file takes its place: here, another's file in a
 * sticky directory. */
BOX_TEST(a_file_that_cannot_be_replaced_fails_the_upload)
{
    static const char *const none[] = { NULL };
    struct process_start s = {
        .what = START_UPLOAD, .argv = none, .cwd = "/", .flags = START_STDIN, .user = "1234"
    };
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 10);
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    if (!box_is_root())
        SKIP("a plain user's sandbox has one identity");
    box_open(&b);
    CHECK_SH(&b, "echo root >/tmp/root", 0, "");
    for (int i = 0; i < 2; i++) { /* the user's own can */
        add_file(&room, "/tmp/own", i ? "new" : "old");
        add_file(&room, i ? "/tmp/root" : "/tmp/own.d/file", "x");
        add_record(&room, UPLOAD_COMMIT, "");
        box_run(&b, &s, buf_str(&room), &o);
        buf_clear(&room);
        if (i)
            CHECK_BAD(o, EPERM);
        else
            CHECK_GOOD(o);
    }
    CHECK_SH(&b, "cd /tmp; cat own root; ls -A; stat -c %u own own.d", 0,
             "oldroot\nown\nown.d\nroot\n1234\n1234\n");
    box_close(&b);
}

BOX_TEST(an_upload_of_many_directories)
{
    struct buf room AUTO(buf_done) = BUF_INIT(4 << 20);
    struct outcome o AUTO(outcome_done) = { 0 };
    char path[64];
    struct box b;

    box_open(&b);
    for (int complete = 0; complete < 2; complete++) {
        for (int i = 0; i < 6000; i++) { /* more than descriptors that a program has at first */
            snprintf(path, sizeof path, "/tmp/many/%d/file", i);
            add_file(&room, path, "x");
        }
        upload_files(&b, &room, NULL, complete, &o);
        CHECK_INT(o.end.status, !complete);
        CHECK_SH(&b,
                 "ls -A /tmp; ls /tmp/many 2>/dev/null | wc -l; cat /tmp/many/*/file 2>/dev/null | "
                 "wc -c",
                 0, complete ? "many\n6000\n6000\n" : "0\n0\n");
    }
    box_close(&b);
}

BOX_TEST(renames)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "echo one >/tmp/one; echo two >/tmp/two", 0, "");
    box_file(&b, START_RENAME, "/tmp/one", "/tmp/two", STR(""), &o);
    CHECK_GOOD(o);
    CHECK_SH(&b, "cat /tmp/two; ls -A /tmp", 0, "one\ntwo\n");
    box_file(&b, START_RENAME, "/tmp/one", "/tmp/three", STR(""), &o);
    CHECK_BAD(o, ENOENT);
    box_close(&b);
}

/* Directories that were made for a rename go again if it fails; what was there before stays. */
BOX_TEST(renames_with_new_parents)
{
    static const char *const good_move[] = { "/tmp/one", "/tmp/a/b/c/two", NULL };
    static const char *const bad_moves[][3] = {
        { "/tmp/none", "/tmp/x/y/z", NULL },
        { "/tmp/a", "/tmp/a/b/new/er/a", NULL }, /* into itself */
        { "/tmp/a", "/tmp/x/y/file/z/a", NULL }, /* through what is no directory */
    };
    struct process_start s = { .what = START_RENAME, .cwd = "/", .mode = START_MAKE_PARENTS };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "echo one >/tmp/one", 0, "");
    s.argv = good_move;
    box_run(&b, &s, STR(""), &o);
    CHECK_GOOD(o);
    for (size_t i = 0; i < COUNT_OF(bad_moves); i++) {
        if (i == 2)
            CHECK_SH(&b, "mkdir -p /tmp/x/y; touch /tmp/x/y/file", 0, "");
        s.argv = bad_moves[i];
        box_run(&b, &s, STR(""), &o);
        CHECK(!good(&o) && !o.failed);
    }
    CHECK_SH(&b, "cd /tmp; find . | sort; cat a/b/c/two", 0,
             ".\n./a\n./a/b\n./a/b/c\n./a/b/c/two\n./x\n./x/y\n./x/y/file\none\n");
    box_close(&b);
}

BOX_TEST(a_watch_tells_what_happens)
{
    static const char *const path[] = { "/tmp", NULL };
    struct process_start s = { .what = START_WATCH, .argv = path, .cwd = "/" };
    struct control_exited end;
    unsigned seen = 0;
    struct box b;
    struct job j;

    box_open(&b);
    CHECK(job_start(&b, &s, &j, NULL));
    for (bool ready = false; seen != (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE);) {
        struct control_event event;
        char name[256] = "";

        CHECK_INT(read_some(j.out, (char *)&event, sizeof event), sizeof event);
        CHECK(event.name_len < sizeof name);
        CHECK_INT(read_some(j.out, name, event.name_len), event.name_len);
        if (!ready) { /* the first record says that the watch stands */
            CHECK(event.mask == 0 && event.name_len == 0);
            CHECK_SH(&b, "echo x >/tmp/seen; rm /tmp/seen", 0, "");
            ready = true;
            continue;
        }
        CHECK_STR(str_from(name), "seen");
        seen |= event.mask & (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE);
    }
    job_end(&b, &j, &end); /* nobody reads any more: it ends by itself */
    CHECK(end.how == CONTROL_BY_EXIT || end.status == SIGPIPE);
    box_close(&b);
}

/* The next record of a watch: its mask, 0 for the one that says that it stands. */
static uint32_t next_change(const struct job *j, char name[static 256])
{
    struct control_event event;

    CHECK_INT(read_some(j->out, (char *)&event, sizeof event), sizeof event);
    CHECK(event.name_len < 256);
    CHECK_INT(read_some(j->out, name, event.name_len), event.name_len);
    name[event.name_len] = '\0';
    return event.mask;
}

static void await_change(const struct job *j, uint32_t mask, const char *wanted)
{
    char name[256];
    uint32_t got;

    do
        got = next_change(j, name);
    while (!(got & mask) || strcmp(name, wanted) != 0);
}

BOX_TEST(a_watch_of_a_tree_follows_what_is_made_later)
{
    static const char *const path[] = { "/tmp/top", NULL };
    struct process_start s = {
        .what = START_WATCH, .argv = path, .cwd = "/", .mode = START_WATCH_TREE
    };
    struct control_exited end;
    char name[256];
    struct box b;
    struct job j;

    box_open(&b);
    CHECK_SH(&b, "mkdir -p /tmp/top/old/er", 0, "");
    CHECK(job_start(&b, &s, &j, NULL));
    CHECK_INT(next_change(&j, name), 0);
    CHECK_SH(&b, "cd /tmp/top; echo x >old/er/f; mkdir -p new/est; echo y >new/est/f", 0, "");
    await_change(&j, IN_CREATE, "old/er/f");
    await_change(&j, IN_CREATE, "new");
    await_change(&j, IN_CREATE, "new/est/f"); /* made before, or after, it was watched */
    CHECK_SH(&b, "cd /tmp/top; mv new moved", 0, "");
    await_change(&j, IN_MOVED_FROM, "new");
    await_change(&j, IN_MOVED_TO, "moved");
    CHECK_SH(&b, "cd /tmp/top; echo z >>moved/est/f; rm -r moved", 0, "");
    await_change(&j, IN_MODIFY, "moved/est/f");
    await_change(&j, IN_DELETE, "moved/est/f");
    await_change(&j, IN_DELETE, "moved");
    job_end(&b, &j, &end);
    box_close(&b);
}

/* As if it were written in its place: of the temporary nothing is told. */
BOX_TEST(a_watch_tells_of_writes)
{
    static const struct {
        uint32_t mask;
        const char *name;
    } wanted[] = {
        { IN_CREATE, "f" }, { IN_ATTRIB, "f" },      { IN_MODIFY, "f" },    { IN_CLOSE_WRITE, "f" },
        { IN_MODIFY, "f" }, { IN_CLOSE_WRITE, "f" }, { IN_CREATE, "last" },
    };
    static const char *const path[] = { "/tmp", NULL };
    struct process_start s = { .what = START_WATCH, .argv = path, .cwd = "/" };
    struct buf room AUTO(buf_done) = BUF_INIT(1 << 10);
    struct outcome o AUTO(outcome_done) = { 0 };
    struct control_exited end;
    char name[256];
    struct box b;
    struct job j;

    box_open(&b);
    CHECK(job_start(&b, &s, &j, NULL));
    CHECK_INT(next_change(&j, name), 0);
    write_file(&b, "/tmp/f", STR("one"), &o);
    write_file(&b, "/tmp/f", STR("two"), &o);
    box_file(&b, START_WRITE, "/tmp/f", NULL, chunks(&room, STR("three"), 1, false), &o);
    CHECK_BAD(o, EINVAL);
    CHECK_SH(&b, "mkdir /tmp/last", 0, "");
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        uint32_t got = next_change(&j, name);

        if (!(got & wanted[i].mask) || strcmp(name, wanted[i].name) != 0)
            FAIL("change %zu: %#x %s", i, got, name);
    }
    job_end(&b, &j, &end);
    box_close(&b);
}

/* With what is there when it is told, but for what goes. */
BOX_TEST(a_watch_tells_entries)
{
    static const char *const path[] = { "/tmp/top", NULL };
    struct process_start s = { .what = START_WATCH,
                               .argv = path,
                               .cwd = "/",
                               .mode = START_WATCH_TREE | START_WATCH_ENTRIES };
    struct control_event event = { 0 };
    struct control_entry entry;
    struct control_exited end;
    char text[512];
    struct box b;
    struct job j;

    box_open(&b);
    CHECK_SH(&b, "mkdir -p /tmp/top/d; echo x >/tmp/top/d/gone", 0, "");
    CHECK(job_start(&b, &s, &j, NULL));
    CHECK_INT(read_some(j.out, (char *)&event, sizeof event), sizeof event);
    CHECK(!event.mask && !event.entry_len);
    CHECK_SH(&b, "cd /tmp/top/d; rm gone; ln -s ../d link", 0, "");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(read_some(j.out, (char *)&event, sizeof event), sizeof event);
        CHECK_INT(read_some(j.out, text, event.name_len), event.name_len);
        CHECK_STR(((struct str){ text, event.name_len }), i ? "d/link" : "d/gone");
        CHECK_INT(event.entry_len, i ? sizeof entry + strlen("link"
                                                             "/tmp/top/d")
                                     : 0);
    }
    CHECK_INT(read_some(j.out, text, event.entry_len), event.entry_len);
    memcpy(&entry, text, sizeof entry);
    CHECK(S_ISLNK(entry.mode));
    CHECK_STR(((struct str){ text + sizeof entry, event.entry_len - sizeof entry }),
              "link/tmp/top/d");
    job_end(&b, &j, &end);
    box_close(&b);
}

BOX_TEST(a_watch_is_of_a_directory)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "echo x >/tmp/file", 0, "");
    box_file(&b, START_WATCH, "/tmp/file", NULL, STR(""), &o);
    CHECK_BAD(o, ENOTDIR);
    box_close(&b);
}

BOX_TEST(a_write_sets_attributes_that_looking_tells)
{
    static const char *const path[] = { "/tmp/file", NULL };
    static const char wanted[] = "user.e2b.kind=a=b";
    const struct str data = { "\1\0\0\0x\0\0\0\0", 9 };
    struct process_start look = { .what = START_STAT, .argv = path, .cwd = "/" };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct control_entry entry;
    struct box b;

    box_open(&b);
    box_file(&b, START_WRITE, path[0], wanted, data, &o);
    CHECK_GOOD(o);
    box_run(&b, &look, STR(""), &o);
    CHECK_INT(o.out.n, sizeof entry + strlen("file")); /* nobody asked */
    look.mode = START_ATTRIBUTES;
    box_run(&b, &look, STR(""), &o);
    CHECK_INT(o.out.n, sizeof entry + strlen("file") + sizeof wanted);
    memcpy(&entry, o.out.p, sizeof entry);
    CHECK_INT(entry.attributes_len, sizeof wanted);
    CHECK(memcmp(o.out.p + o.out.n - sizeof wanted, wanted, sizeof wanted) == 0);
    box_file(&b, START_WRITE, path[0], "trusted.x=y", data, &o);
    CHECK(o.end.status != 0);
    box_close(&b);
}

BOX_TEST(a_tree_survives_packing_and_unpacking)
{
    struct outcome packed AUTO(outcome_done) = { 0 }, o AUTO(outcome_done) = { 0 };
    struct outcome before AUTO(outcome_done) = { 0 }, after AUTO(outcome_done) = { 0 };
    static const char look[] = "cd /tmp/%s && find . -printf '%%p %%m %%s %%l %%T@\\n' | sort && "
                               "find . -type f -exec cksum {} + | sort";
    char script[300];
    struct box b;

    box_open(&b);
    CHECK_SH(&b,
             "mkdir -p /tmp/from/d/e /tmp/to && cd /tmp/from && seq 1 60000 >d/data && "
             "ln -s d/data link && ln -s /etc/passwd out && printf x >d/e/one && chmod 600 d/e/one "
             "&& : >empty && "
             "find . -exec touch -h -d @1600000000 {} +",
             0, "");
    box_file(&b, START_PACK, "/tmp/from", NULL, STR(""), &packed);
    CHECK_GOOD(packed);
    CHECK(packed.out.n > 300000);
    box_file(&b, START_UNPACK, "/tmp/to", NULL, buf_str(&packed.out), &o);
    CHECK_GOOD(o);
    snprintf(script, sizeof script, look, "from");
    sh_run(&b, script, &before);
    snprintf(script, sizeof script, look, "to/from");
    sh_run(&b, script, &after);
    if (!str_eq(buf_str(&before.out), buf_str(&after.out)))
        FAIL("before: " STR_FMT " after: " STR_FMT, STR_ARG(buf_str(&before.out)),
             STR_ARG(buf_str(&after.out)));
    CHECK(before.out.n > 100);
    /* cut short */
    box_file(&b, START_UNPACK, "/tmp/to", NULL, (struct str){ packed.out.p, packed.out.n / 2 }, &o);
    CHECK(!good(&o));
    box_close(&b);
}

/* In root's sandbox other users are real: their operations have their rights. */
BOX_TEST(operations_have_the_rights_of_their_user)
{
    static const char *const secret[] = { "/tmp/secret", NULL };
    struct process_start s = { .what = START_READ, .argv = secret, .cwd = "/", .user = "1234" };
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;

    if (!box_is_root())
        SKIP("a plain user's sandbox has one identity");
    box_open(&b);
    CHECK_SH(&b, "echo secret >/tmp/secret; chmod 600 /tmp/secret", 0, "");
    box_run(&b, &s, STR(""), &o);
    CHECK_BAD(o, EACCES);
    CHECK_INT(o.out.n, 0);
    s.what = START_REMOVE;
    box_run(&b, &s, STR(""), &o);
    CHECK(!good(&o)); /* /tmp is sticky */
    CHECK_SH(&b, "cat /tmp/secret", 0, "secret\n");
    box_close(&b);
}
