/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/verb.h"
#include "harness/tap.h"

enum { REQUEST_MAX = 4 << 20, ARGUMENTS_MAX = 32 };

struct buf fake_out = BUF_INIT(REQUEST_MAX), fake_err = BUF_INIT(REQUEST_MAX);

static int requests = -1; /* a memfd */
static struct buf request_text = BUF_INIT(4 * REQUEST_MAX);
static pid_t server;
static char directory[64], path[108];

/* What lives until the end of the test, so that a leak checker finds it. */
static void *kept[1024];
static size_t n_kept;

static void *keep(void *p)
{
    CHECK(p && n_kept < sizeof kept / sizeof kept[0]);
    kept[n_kept++] = p;
    return p;
}

static void remove_socket(void)
{
    if (!directory[0])
        return;
    unlink(path);
    rmdir(directory);
    directory[0] = '\0';
}

/* The head is there, and the body it announces. */
static bool complete(struct str s)
{
    const char *end = memmem(s.p, s.n, "\r\n\r\n", 4), *length;
    size_t head;

    if (!end)
        return false;
    head = (size_t)(end - s.p) + 4;
    if (memmem(s.p, head, "chunked", 7))
        return s.n >= 5 && memcmp(s.p + s.n - 5, "0\r\n\r\n", 5) == 0;
    length = memmem(s.p, head, "Content-Length: ", 16);
    return s.n >= head + (length ? strtoul(length + 16, NULL, 10) : 0);
}

static void read_request(int connection)
{
    struct buf in = BUF_INIT(REQUEST_MAX);
    ssize_t n;
    char *room;

    do {
        buf_room(&in, 65536, &room);
        n = read(connection, room, 65536);
        buf_grew(&in, n > 0 ? (size_t)n : 0);
    } while (n > 0 && !complete(buf_str(&in)));
    if (write(requests, in.p, in.n) != (ssize_t)in.n)
        _exit(1);
    buf_done(&in);
}

static void send_reply(int connection, const struct fake_reply *r)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof r->fds)];
    } control = { 0 };
    struct iovec v = { (void *)(uintptr_t)r->bytes, r->n ? r->n : strlen(r->bytes) };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

    if (r->n_fds) {
        struct cmsghdr *h = &control.align;

        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(r->n_fds * sizeof(int));
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(r->n_fds * sizeof(int));
        memcpy(CMSG_DATA(h), r->fds, r->n_fds * sizeof(int));
    }
    if (sendmsg(connection, &m, MSG_NOSIGNAL) < 0)
        _exit(1);
    for (size_t i = 0; i < r->n_fds; i++)
        close(r->fds[i]);
}

static _Noreturn void answer(int connection, const struct fake_reply *r)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    read_request(connection);
    send_reply(connection, r);
    if (r->then)
        r->then(connection);
    _exit(0);
}

static _Noreturn void serve(int listener, const struct fake_reply *replies, size_t n)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < n; i++) {
        int connection = accept(listener, NULL, NULL);

        if (fork() == 0)
            answer(connection, &replies[i]);
        close(connection);
        for (size_t fd = 0; fd < replies[i].n_fds; fd++)
            close(replies[i].fds[fd]);
    }
    while (wait(NULL) > 0)
        ;
    _exit(0);
}

void fake_serve(const struct fake_reply *replies, size_t n)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(directory, sizeof directory, "/tmp/sandboxer-fake-XXXXXX");
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/socket", directory);
    memcpy(at.sun_path, path, sizeof at.sun_path);
    atexit(remove_socket);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 8) == 0);
    setenv("SANDBOXER_SOCKET", path, 1);
    setenv("SANDBOXER_NO_DAEMON", "1", 1);
    unsetenv("SANDBOXER_URL");
    requests = memfd_create("requests", MFD_CLOEXEC);
    server = fork();
    if (server == 0)
        serve(listener, replies, n);
    close(listener);
    for (size_t i = 0; i < n; i++)
        for (size_t fd = 0; fd < replies[i].n_fds; fd++)
            close(replies[i].fds[fd]);
}

struct fake_reply fake_json(const char *status, const char *body)
{
    char *text = NULL;

    CHECK(asprintf(&text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body),
                   body) > 0);
    return (struct fake_reply){ .bytes = keep(text) };
}

static void read_back(int fd, struct buf *out)
{
    char *room;
    ssize_t n;

    buf_clear(out);
    lseek(fd, 0, SEEK_SET);
    do {
        CHECK(buf_room(out, 65536, &room) >= 0);
        n = read(fd, room, 65536);
        CHECK(n >= 0);
        buf_grew(out, (size_t)n);
    } while (n > 0);
    buf_add(out, STR("")); /* NUL, also if it is empty */
}

static int run(const char *input, int argc, char **argv)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC), status;
    int in = memfd_create("in", MFD_CLOEXEC);
    pid_t pid;

    CHECK(write(in, input, strlen(input)) == (ssize_t)strlen(input));
    lseek(in, 0, SEEK_SET);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
        status = cli_main(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    read_back(out, &fake_out);
    read_back(err, &fake_err);
    close(in);
    close(out);
    close(err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int fake_run_words(const char *input, const char *const *words)
{
    char *argv[ARGUMENTS_MAX + 2];
    int argc = 0;

    argv[argc++] = keep(strdup("sandboxer"));
    for (; *words; words++) {
        CHECK(argc <= ARGUMENTS_MAX);
        argv[argc++] = keep(strdup(*words));
    }
    argv[argc] = NULL;
    return run(input, argc, argv);
}

const char *fake_requests(void)
{
    if (server)
        kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
    read_back(requests, &request_text);
    remove_socket();
    return request_text.p;
}
