/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher whose peer is not to be trusted with its file rights: layers and mounts come as paths
 * below the directories that it was started with, and lead nowhere else. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "engine/runtime/granted.h"

enum { PATH_ROOM = 192 };

/* Two roots with something in them, and something beside them that is nobody's business. */
struct yard {
    char top[64], first[PATH_ROOM], second[PATH_ROOM];
    const char *roots[2];
};

/* What is in a yard, in the order in which it is made; what has `link` is a symbolic link. */
static const struct {
    const char *path, *link, *text;
} things[] = {
    { "first", NULL, NULL },
    { "second", NULL, NULL },
    { "secret", NULL, NULL },
    { "secret/file", NULL, "secret\n" },
    { "first/dir", NULL, NULL },
    { "first/dir/file", NULL, "hello\n" },
    { "first/file", NULL, "single\n" },
    { "second/file", NULL, "other\n" },
    { "first/up", "..", NULL },
    { "first/out", "../secret", NULL },
    { "first/etc", "/etc", NULL },
    { "first/inner", "dir", NULL },
    { "first/magic", "/proc/self/root", NULL },
};

static void path_of(const struct yard *y, const char *name, char out[PATH_ROOM])
{
    snprintf(out, PATH_ROOM, "%s/%s", y->top, name);
}

static void write_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void yard_init(struct yard *y)
{
    *y = (struct yard){ .top = "/tmp/sandboxer-test-XXXXXX" };
    CHECK(mkdtemp(y->top) && chmod(y->top, 0755) == 0);
    for (size_t i = 0; i < COUNT_OF(things); i++) {
        char path[PATH_ROOM];

        path_of(y, things[i].path, path);
        if (things[i].text)
            write_file(path, things[i].text);
        else
            CHECK((things[i].link ? symlink(things[i].link, path) : mkdir(path, 0755)) == 0);
    }
    path_of(y, "first", y->first);
    path_of(y, "second", y->second);
    y->roots[0] = y->first;
    y->roots[1] = y->second;
}

static void yard_done(const struct yard *y)
{
    for (size_t i = COUNT_OF(things); i-- > 0;) {
        char path[PATH_ROOM];

        path_of(y, things[i].path, path);
        CHECK(unlink(path) == 0 || rmdir(path) == 0);
    }
    CHECK(rmdir(y->top) == 0);
}

static struct launcher_options options(const struct yard *y, bool untrusted)
{
    return (struct launcher_options){ .untrusted = untrusted, .roots = y->roots, .n_roots = 2 };
}

static void add(struct box *b, uint32_t root, const char *source, const char *target,
                uint32_t flags)
{
    struct err e;

    CHECK_OK(plan_add_mount(&b->plan, root, source, target, flags, &e), e);
}

BOX_TEST(files_and_directories_below_roots)
{
    struct launcher_options o;
    struct yard y;
    struct box b;

    yard_init(&y);
    o = options(&y, true);
    box_prepare_with(&b, &o);
    add(&b, 1, "dir", "/mnt/dir", 0);
    add(&b, 1, "file", "/mnt/file", 0);
    add(&b, 2, ".", "/mnt/all", PLAN_MOUNT_RW);
    box_build(&b);
    CHECK_SH(&b, "cat /mnt/dir/file /mnt/file /mnt/all/file", 0, "hello\nsingle\nother\n");
    CHECK_SH(&b, "touch /mnt/dir/x 2>/dev/null || echo read-only", 0, "read-only\n");
    CHECK_SH(&b, "echo written >/mnt/all/file && cat /mnt/all/file", 0, "written\n");
    CHECK_SH(&b, "ls -a /mnt/all/.. | grep secret", 1, "");
    box_close(&b);
    yard_done(&y);
}

BOX_TEST(a_trusted_peer_may_use_both_ways)
{
    char path[PATH_ROOM];
    struct launcher_options o;
    struct yard y;
    struct box b;

    yard_init(&y);
    o = options(&y, false);
    box_prepare_with(&b, &o);
    add(&b, 1, "dir", "/mnt/dir", 0);
    path_of(&y, "secret", path);
    box_mount(&b, path, "/mnt/lent", false);
    add(&b, 2, "file", "/mnt/file", 0);
    box_build(&b);
    CHECK_SH(&b, "cat /mnt/dir/file /mnt/lent/file /mnt/file", 0, "hello\nsecret\nother\n");
    box_close(&b);
    yard_done(&y);
}

/* One create; what it gives. */
static int try_create(const struct launcher *l, const struct plan *p, const int *more, size_t n)
{
    union launch_answer answer;
    AUTO_CLOSE int pidfd = -1;
    int pair[2], fds[8], r;
    struct err e;

    CHECK_OK(ipc_pair(pair, &e), e);
    fds[0] = pair[1];
    if (n)
        memcpy(fds + 1, more, n * sizeof fds[0]);
    CHECK_OK(launcher_create(l, p, fds, 1 + n, &e), e);
    CHECK_OK(launcher_next(l, &answer, &pidfd, &e), e);
    r = answer.head.type == LAUNCH_FAILED ? launcher_failure(&answer.failed, &e) : 0;
    if (r < 0)
        CHECK(strcmp(answer.failed.id, p->id) == 0);
    close(pair[0]);
    close(pair[1]);
    return r;
}

BOX_TEST(no_path_leads_out_of_a_root)
{
    static const struct {
        uint32_t root;
        const char *source;
        int want;
    } cases[] = {
        { 1, "..", -ERR_INVALID },
        { 1, "../secret", -ERR_INVALID },
        { 1, "dir/../../secret", -ERR_INVALID },
        { 1, "/etc", -ERR_INVALID },
        { 1, "/", -ERR_INVALID },
        { 1, "", -ERR_INVALID },
        { 1, "out", -ERR_DENIED },
        { 1, "out/file", -ERR_DENIED },
        { 1, "up", -ERR_DENIED },
        { 1, "up/secret", -ERR_DENIED },
        { 1, "etc", -ERR_DENIED },
        { 1, "etc/passwd", -ERR_DENIED },
        { 1, "inner", -ERR_DENIED }, /* not even inside: it could be replaced meanwhile */
        { 1, "inner/file", -ERR_DENIED },
        { 1, "magic", -ERR_DENIED },
        { 1, "magic/etc", -ERR_DENIED },
        { 1, "nothing", -ERR_SYS },
        { 3, "file", -ERR_DENIED },
        { PLAN_ROOTS_MAX, "file", -ERR_DENIED },
        { PLAN_STORE + 1, "file", -ERR_INVALID },
        { UINT32_MAX, "file", -ERR_INVALID },
        { 0, "file", -ERR_INVALID },
    };
    struct launcher_options o;
    struct launcher l;
    struct yard y;
    struct err e;

    yard_init(&y);
    for (int trusted = 0; trusted < 2; trusted++) {
        o = options(&y, !trusted);
        CHECK_OK(launcher_start_with(&o, &l, &e), e);
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            struct plan mounts, layers;
            int r;

            CHECK_OK(plan_init(&mounts, &e), e);
            layers = mounts;
            CHECK_OK(
                plan_add_mount(&mounts, cases[i].root, cases[i].source, "/x", PLAN_MOUNT_RW, &e),
                e);
            CHECK_OK(plan_add_layer(&layers, cases[i].root, cases[i].source, &e), e);
            r = try_create(&l, &mounts, NULL, 0);
            if (r != cases[i].want)
                FAIL("mount '%s' below root %u gives %d", cases[i].source, cases[i].root, r);
            r = try_create(&l, &layers, NULL, 0);
            if (r != cases[i].want)
                FAIL("layer '%s' below root %u gives %d", cases[i].source, cases[i].root, r);
            box_expect_gone(mounts.id);
        }
        launcher_done(&l);
    }
    yard_done(&y);
}

/* /proc as a root: its magic links are no way out, and what is no file is no source. */
BOX_TEST(magic_links_and_special_files)
{
    static const char *const sources[] = { "self/root", "self/cwd", "self/exe",
                                           "self/fd/3", "1/root",   "thread-self/root" };
    static const char *const roots[] = { "/proc", "/dev" };
    struct launcher_options o = { .untrusted = true, .roots = roots, .n_roots = 2 };
    struct launcher l;
    struct plan p;
    struct err e;

    CHECK_OK(launcher_start_with(&o, &l, &e), e);
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        CHECK_OK(plan_init(&p, &e), e);
        CHECK_OK(plan_add_mount(&p, 1, sources[i], "/x", 0, &e), e);
        if (try_create(&l, &p, NULL, 0) >= 0)
            FAIL("'%s' is taken", sources[i]);
    }
    CHECK_OK(plan_init(&p, &e), e);
    CHECK_OK(plan_add_mount(&p, 2, "null", "/x", 0, &e), e);
    CHECK_INT(try_create(&l, &p, NULL, 0), -ERR_INVALID);
    launcher_done(&l);
}

/* A socket with the files of a sandbox's mounts, as a supervisor passes it: from a child of the
 * launcher's parent, or (`forged`) from a process that has the parent's user. */
static int pass_granted(const char *id, const char *path, bool forged)
{
    struct granted g = { .uid = geteuid(), .gid = getegid(), .n = 1 };
    struct ipc_fds got = { .n = 0 };
    int pair[2], sock = -1, status = 0;
    struct err e;
    pid_t pid;
    char byte;

    snprintf(g.id, sizeof g.id, "%s", id);
    g.file[0] = (struct granted_file){ .target = "/mnt/granted", .is_dir = 1 };
    g.fd[0] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK(g.fd[0] >= 0);
    if (forged) {
        CHECK_OK(granted_pass(&g, &sock, &e), e);
        granted_done(&g);
        return sock;
    }
    CHECK_OK(ipc_pair(pair, &e), e);
    pid = fork();
    if (pid == 0)
        _exit(granted_pass(&g, &sock, NULL) < 0 || ipc_send(pair[0], "x", 1, &sock, 1, NULL) < 0
                  ? 1
                  : 0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &got, &e), 1);
    granted_done(&g);
    close(pair[0]);
    close(pair[1]);
    return got.fd[0];
}

BOX_TEST(a_peer_passes_on_what_the_supervisor_granted)
{
    char secret[PATH_ROOM];
    struct launcher_options o;
    struct yard y;
    struct box b;

    yard_init(&y);
    o = options(&y, box_is_root());
    path_of(&y, "secret", secret);
    box_prepare_with(&b, &o);
    add(&b, PLAN_GRANT, "", "/mnt/granted", 0);
    b.plan.flags |= PLAN_GRANTED;
    b.fds[1 + b.n_lent++] = pass_granted(b.plan.id, secret, false);
    box_build(&b);
    CHECK_SH(&b, "cat /mnt/granted/file; touch /mnt/granted/x 2>/dev/null || echo read-only", 0,
             "secret\nread-only\n");
    box_close(&b);
    yard_done(&y);
}

BOX_TEST(an_untrusted_peer_forges_no_grant)
{
    char secret[PATH_ROOM];
    struct launcher_options o;
    struct launcher l;
    struct yard y;
    struct plan p;
    struct err e;
    int pair[2], socks[4];

    if (!box_is_root())
        return; /* a plain user's launcher trusts its own user */
    yard_init(&y);
    o = options(&y, true);
    path_of(&y, "secret", secret);
    CHECK_OK(launcher_start_with(&o, &l, &e), e);
    CHECK_OK(plan_init(&p, &e), e);
    CHECK_OK(plan_add_mount(&p, PLAN_GRANT, "", "/mnt/granted", PLAN_MOUNT_RW, &e), e);
    p.flags |= PLAN_GRANTED;
    CHECK_OK(ipc_pair(pair, &e), e);
    socks[0] = pair[0];                                    /* nothing is queued */
    socks[1] = pass_granted(p.id, secret, true);           /* another sender */
    socks[2] = pass_granted("sbx_another", secret, false); /* another sandbox's */
    socks[3] = pass_granted(p.id, secret, false);          /* for reading only */
    for (size_t i = 0; i < COUNT_OF(socks); i++) {
        if (try_create(&l, &p, &socks[i], 1) != -ERR_DENIED)
            FAIL("socket %zu is taken", i);
        close(socks[i]);
        box_expect_gone(p.id);
    }
    close(pair[1]);
    launcher_done(&l);
    yard_done(&y);
}

BOX_TEST(an_untrusted_peer_lends_no_descriptors)
{
    AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int etc = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    struct plan mount, layer, none, listener, mixed;
    struct launcher_options o;
    struct launcher l;
    struct yard y;
    struct err e;

    yard_init(&y);
    o = options(&y, true);
    CHECK_OK(launcher_start_with(&o, &l, &e), e);
    CHECK_OK(plan_init(&none, &e), e);
    mount = layer = listener = mixed = none;
    CHECK_OK(plan_add_mount(&mount, 0, "", "/x", 0, &e), e);
    CHECK_OK(plan_add_layer(&layer, 0, "", &e), e);
    CHECK_INT(try_create(&l, &mount, &etc, 1), -ERR_DENIED);
    CHECK_INT(try_create(&l, &layer, &root, 1), -ERR_DENIED);
    CHECK_OK(plan_add_mount(&mixed, 1, "file", "/y", 0, &e), e);
    CHECK_INT(try_create(&l, &mixed, &root, 1), -ERR_INVALID); /* more than it names */
    CHECK_OK(plan_add_mount(&mixed, 0, "", "/x", 0, &e), e);
    CHECK_INT(try_create(&l, &mixed, &root, 1), -ERR_DENIED);
    listener.flags = PLAN_LISTENER; /* in the places of sockets */
    CHECK_INT(try_create(&l, &listener, &root, 1), -ERR_INVALID);
    CHECK_INT(try_create(&l, &listener, &etc, 1), -ERR_INVALID);
    CHECK_OK(launcher_create(&l, &none, &root, 1, &e), e);
    CHECK_INT(launcher_answer(&l, &(union launch_answer){ 0 }, NULL, &e), -ERR_INVALID);
    launcher_done(&l);
    drop_fd(&root);
    drop_fd(&etc);
    yard_done(&y);
}

BOX_TEST(a_root_that_is_not_there_is_an_error_of_the_create)
{
    static const char *const roots[] = { "/no/such/place" };
    struct launcher_options o = { .roots = roots, .n_roots = 1 };
    struct launcher l;
    struct plan p;
    struct err e;

    CHECK_OK(launcher_start_with(&o, &l, &e), e);
    CHECK_OK(plan_init(&p, &e), e);
    CHECK_OK(plan_add_mount(&p, 1, "x", "/x", 0, &e), e);
    CHECK_INT(try_create(&l, &p, NULL, 0), -ERR_SYS);
    launcher_done(&l);
}
