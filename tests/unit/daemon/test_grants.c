/* SPDX-License-Identifier: Apache-2.0 */
/* What a control plane that was taken over can have of the supervisor: the part that decides. */
#include "daemon/grants.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "lib/proc/confine.h"

enum { OTHER = 61999 };

static struct err e;
static struct scratch s;
static struct client_doors doors;
static struct launcher_options options;
static const char *roots[1];
static struct grants g;
static int listening;

static void name_socket(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    CHECK(snprintf(ret->sun_path, sizeof ret->sun_path, "%s/%s", s.path, name) <
          (int)sizeof ret->sun_path);
}

static int listen_at(const char *name)
{
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name_socket(name, &a);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 4) == 0);
    return fd;
}

static int connect_to(const char *name)
{
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name_socket(name, &a);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static void set_up(void)
{
    s = scratch_make();
    listening = listen_at("door");
    CHECK(fchmodat(s.dir, "door", 0777, 0) == 0);
    client_doors_add(&doors, listening);
    make_dir(s.dir, "grants");
    make_dir(s.dir, "work");
    make_dir(s.dir, "work/repo");
    make_dir(s.dir, "elsewhere");
    CHECK(symlinkat("repo", s.dir, "work/link") == 0);
    roots[0] = s.path;
    options = (struct launcher_options){ .untrusted = true, .roots = roots, .n_roots = 1 };
    g = (struct grants){ openat(s.dir, "grants", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &options,
                         &doors };
    CHECK(g.dir >= 0);
}

/* The daemon's side of a client's connection. */
static int accept_client(void)
{
    int theirs = connect_to("door"), ours = accept(listening, NULL, NULL);

    CHECK(theirs >= 0 && ours >= 0);
    return ours;
}

/* The same of a client that is another user. */
static int accept_other(void)
{
    pid_t pid = fork();
    int ours;

    if (pid == 0) {
        if (setresgid(OTHER, OTHER, OTHER) < 0 || setresuid(OTHER, OTHER, OTHER) < 0)
            _exit(2);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        connect_to("door");
        for (;;)
            pause(); /* connected, until the test ends */
    }
    ours = accept(listening, NULL, NULL);
    CHECK(ours >= 0 && pid > 0);
    return ours;
}

static int grant_path(int sock, const char *path)
{
    return grant_make_named(&g, "sbx_1", sock, 1, path, true, &e);
}

TEST(a_client_that_is_connected_grants_its_directory)
{
    struct workspace_grant found;
    int dir;

    set_up();
    CHECK_OK(grant_path(accept_client(), "work/repo"), e);
    CHECK_OK(grant_open(&g, "sbx_1", &found, &dir, &e), e);
    CHECK_INT(found.client.uid, geteuid());
    CHECK(found.writable);
    CHECK_OK(grant_remove(&g, "sbx_1", &e), e);
    CHECK_INT(grant_open(&g, "sbx_1", &found, &dir, &e), -ERR_NOT_FOUND);
    CHECK_OK(grant_remove(&g, "sbx_1", &e), e);
}

/* Everything that a control plane can get hold of besides. */
TEST(no_other_descriptor_is_a_client)
{
    int pair[2], file = memfd_create("x", MFD_CLOEXEC), tcp, other, pipes[2];

    set_up();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK_INT(grant_path(pair[0], "work/repo"), -ERR_DENIED);
    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_INT(grant_path(pair[0], "work/repo"), -ERR_DENIED);
    CHECK(pipe(pipes) == 0);
    CHECK_INT(grant_path(pipes[0], "work/repo"), -ERR_DENIED);
    CHECK_INT(grant_path(file, "work/repo"), -ERR_DENIED);
    CHECK_INT(grant_path(-1, "work/repo"), -ERR_DENIED);
    CHECK_INT(grant_path(listening, "work/repo"), -ERR_DENIED);
    tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(grant_path(tcp, "work/repo"), -ERR_DENIED);
    /* The other end of a connection names who listens: another service, or the daemon itself. */
    other = listen_at("service");
    CHECK_INT(grant_path(connect_to("service"), "work/repo"), -ERR_DENIED);
    CHECK_INT(grant_path(connect_to("door"), "work/repo"), -ERR_DENIED);
    close(other);
}

TEST(a_client_that_has_gone_grants_nothing)
{
    int theirs, ours, half;

    set_up();
    theirs = connect_to("door");
    ours = accept(listening, NULL, NULL);
    CHECK(theirs >= 0 && ours >= 0);
    half = connect_to("door");
    CHECK(shutdown(half, SHUT_WR) == 0); /* it has sent everything, and waits for the answer */
    CHECK_OK(grant_path(accept(listening, NULL, NULL), "work/repo"), e);
    CHECK_OK(grant_remove(&g, "sbx_1", &e), e);
    close(theirs);
    CHECK_INT(grant_path(ours, "work/repo"), -ERR_DENIED);
    CHECK_STR(str_from(e.msg), "the client has closed its connection");
}

TEST(a_path_stays_below_its_root)
{
    int sock;

    set_up();
    sock = accept_client();
    CHECK_INT(grant_path(sock, "work/link"), -ERR_DENIED);
    CHECK_INT(grant_path(sock, "../../etc"), -ERR_DENIED);
    CHECK_INT(grant_path(sock, "/etc"), -ERR_DENIED);
    CHECK_INT(grant_path(sock, "none"), -ERR_INVALID);
    CHECK_INT(grant_make_named(&g, "sbx_1", sock, 0, "/etc", true, &e), -ERR_DENIED);
    CHECK_INT(grant_make_named(&g, "sbx_1", sock, 2, "etc", true, &e), -ERR_DENIED);
    CHECK(!grant_name_valid("../x") && !grant_name_valid("") && !grant_name_valid(".x"));
}

TEST(another_user_has_its_own_rights)
{
    if (geteuid() != 0)
        return;
    set_up();
    CHECK(fchmodat(s.dir, ".", 0755, 0) == 0);
    CHECK(fchmodat(s.dir, "work", 0755, 0) == 0);
    CHECK(fchmodat(s.dir, "work/repo", 0755, 0) == 0);
    CHECK_INT(grant_path(accept_other(), "work/repo"), -ERR_DENIED); /* root's, though readable */
    CHECK(fchownat(s.dir, "work/repo", OTHER, OTHER, 0) == 0);
    CHECK_OK(grant_path(accept_other(), "work/repo"), e);
    CHECK(fchmodat(s.dir, "work", 0700, 0) == 0);
    CHECK_INT(grant_path(accept_other(), "work/repo"), -ERR_DENIED); /* closed on the way */
    CHECK_INT(geteuid(), 0);
    CHECK_OK(grant_path(accept_client(), "work/repo"), e); /* root again */
}

TEST(a_directory_that_was_replaced_is_not_opened)
{
    struct workspace_grant found;
    int dir;

    set_up();
    CHECK_OK(grant_path(accept_client(), "work/repo"), e);
    CHECK(renameat(s.dir, "work/repo", s.dir, "work/moved") == 0);
    CHECK_INT(grant_open(&g, "sbx_1", &found, &dir, &e), -ERR_INVALID);
    make_dir(s.dir, "work/repo");
    CHECK_INT(grant_open(&g, "sbx_1", &found, &dir, &e), -ERR_CONFLICT);
    CHECK(strstr(e.msg, "work/repo"));
    roots[0] = "/nowhere";
    CHECK_INT(grant_open(&g, "sbx_1", &found, &dir, &e), -ERR_DENIED);
}

static int pass_directory(int dir, bool writable, int *ret, struct err *err)
{
    struct handover h AUTO(handover_done) = { .n = 0 };
    int r = handover_add(
        &h, &dir, &(struct handover_file){ .use = HANDOVER_WORKSPACE, .writable = writable }, err);

    return r < 0 ? r : handover_make(&h, ret, err);
}

static int hand_over(const char *path, bool writable)
{
    int ret;

    CHECK_OK(
        pass_directory(openat(s.dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC), writable, &ret, &e),
        e);
    return ret;
}

/* As the supervisor serves a request of the control plane. */
static int grant_handed(const char *sandbox, int sock, bool writable)
{
    struct handover h AUTO(handover_done) = { .n = 0 };
    struct client client;
    int r = handover_take(sock, !sandbox, &h, &e);

    if (r >= 0)
        r = client_of_handover(sock, &h, &client, &e);
    return r < 0 ? r : grant_make_handed(&g, sandbox, &client, &h, writable, &e);
}

TEST(a_directory_that_is_handed_over_needs_no_root)
{
    struct workspace_grant found;
    int dir;

    set_up();
    options.n_roots = 0;
    CHECK_OK(grant_handed("sbx_1", hand_over("elsewhere", true), true), e);
    CHECK_OK(grant_open(&g, "sbx_1", &found, &dir, &e), e);
    CHECK(found.writable && strstr(found.path, "/elsewhere"));
    /* The client decides whether it is written to. */
    CHECK_OK(grant_handed("sbx_1", hand_over("elsewhere", false), true), e);
    CHECK_OK(grant_open(&g, "sbx_1", &found, &dir, &e), e);
    CHECK(!found.writable);
}

/* Before a sandbox is there: what a client could grant is asked, and asking changes nothing. */
TEST(a_grant_that_is_only_checked_leaves_no_trace)
{
    struct workspace_grant found;
    int dir, sock;

    set_up();
    CHECK_OK(grant_make_named(&g, NULL, accept_client(), 1, "work/repo", true, &e), e);
    CHECK_INT(grant_make_named(&g, NULL, accept_client(), 1, "work/none", true, &e), -ERR_INVALID);
    CHECK_INT(grant_make_named(&g, NULL, accept_client(), 1, "work/link", true, &e), -ERR_DENIED);
    sock = hand_over("elsewhere", true);
    for (int i = 0; i < 3; i++)
        CHECK_OK(grant_handed(NULL, sock, true), e);
    CHECK_INT(grant_open(&g, "sbx_1", &found, &dir, &e), -ERR_NOT_FOUND);
    CHECK_OK(grant_handed("sbx_1", sock, true), e);
    CHECK_INT(grant_handed(NULL, sock, true), -ERR_DENIED); /* it was taken */
    CHECK_OK(grant_open(&g, "sbx_1", &found, &dir, &e), e);
}

/* A handover of another user is worth what that user may do, whoever passes it on. */
TEST(a_handover_is_its_senders)
{
    int pair[2], status, held;
    pid_t pid;

    if (geteuid() != 0)
        return;
    set_up();
    CHECK(fchmodat(s.dir, ".", 0755, 0) == 0);
    CHECK(fchmodat(s.dir, "elsewhere", 0700, 0) == 0);
    CHECK_OK(ipc_pair(pair, &e), e);
    pid = fork();
    if (pid == 0) {
        int dir, sock;

        if (setresgid(OTHER, OTHER, OTHER) < 0 || setresuid(OTHER, OTHER, OTHER) < 0)
            _exit(2);
        dir = openat(s.dir, "elsewhere", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || pass_directory(dir, true, &sock, NULL) < 0 ||
            ipc_send(pair[0], "x", 1, &sock, 1, NULL) < 0)
            _exit(3);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    {
        struct ipc_fds got;
        char byte;

        CHECK_INT(ipc_recv(pair[1], &byte, 1, &got, &e), 1);
        held = got.fd[0];
    }
    CHECK_INT(grant_handed("sbx_1", held, true), -ERR_DENIED);
}

TEST(what_is_no_handover_is_refused)
{
    int pair[2], sock, dir;

    set_up();
    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_INT(grant_handed("sbx_1", pair[0], true), -ERR_DENIED); /* nothing in it */
    dir = openat(s.dir, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_OK(ipc_send(pair[1], "0123456789abcdef", 16, &dir, 1, &e), e);
    CHECK_INT(grant_handed("sbx_1", pair[0], true), -ERR_DENIED); /* something else */
    CHECK_INT(grant_handed("sbx_1", accept_client(), true), -ERR_DENIED);
    CHECK_INT(grant_handed("sbx_1", dir, true), -ERR_DENIED);
    sock = hand_over("work", true);
    CHECK_OK(grant_handed("sbx_1", sock, true), e);
    CHECK_INT(grant_handed("sbx_1", sock, true), -ERR_DENIED); /* good once */
}
