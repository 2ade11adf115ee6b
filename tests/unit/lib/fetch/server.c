/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

struct request {
    int fd;
    int connection; /* the how many-th this server has accepted */
    char head[8192];
};

/* The parent may have gone before it was said. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

static void put(int fd, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        ssize_t w = send(fd, text, n, MSG_NOSIGNAL);

        if (w <= 0)
            _exit(0); /* the client has gone */
        text += w;
        n -= (size_t)w;
    }
}

static void answer(const struct request *q, const char *status, const char *more, const char *body)
{
    char head[1024];

    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nX-Connection: %d\r\n%s\r\n",
             status, strlen(body), q->connection, more);
    put(q->fd, head);
    put(q->fd, body);
}

static void ok(const struct request *q)
{
    bool head = strncmp(q->head, "HEAD ", 5) == 0;

    answer(q, "200 OK", "X-Many: first\r\nX-Many: last\r\n", head ? "" : "hello");
}

static void missing(const struct request *q)
{
    answer(q, "404 Not Found", "", "no such thing");
}

static void broken(const struct request *q)
{
    answer(q, "503 Service Unavailable", "Retry-After: 7\r\n", "later");
}

/* The whole request is the answer's body. */
static void echo(const struct request *q)
{
    const char *length = strcasestr(q->head, "\r\nContent-Length: ");
    size_t have = strlen(q->head), want = length ? strtoul(length + 18, NULL, 10) : 0;
    char whole[8192];

    if (have + want >= sizeof whole)
        _exit(1);
    memcpy(whole, q->head, have);
    while (want > 0) {
        ssize_t n = read(q->fd, whole + have, want);

        if (n <= 0)
            _exit(1);
        have += (size_t)n;
        want -= (size_t)n;
    }
    whole[have] = '\0';
    answer(q, "200 OK", "", whole);
}

static void hang(const struct request *q)
{
    char c;

    while (read(q->fd, &c, 1) > 0)
        ;
}

static void endless_body(const struct request *q)
{
    put(q->fd, "HTTP/1.1 200 OK\r\n\r\n");
    for (;;)
        put(q->fd, "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
}

static void endless_head(const struct request *q)
{
    put(q->fd, "HTTP/1.1 200 OK\r\n");
    for (;;)
        put(q->fd, "X-Filler: 0123456789abcdef0123456789abcdef0123456789abcdef\r\n");
}

static void cut(const struct request *q)
{
    put(q->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    _exit(0);
}

static void silent(const struct request *q)
{
    _exit(0);
}

static void garbage(const struct request *q)
{
    put(q->fd, "220 mail.example ESMTP\r\n\r\n");
    _exit(0);
}

static void redirect(const struct request *q)
{
    answer(q, "302 Found", "Location: /ok\r\n", "elsewhere");
}

static void redirect_round(const struct request *q)
{
    answer(q, "302 Found", "Location: /round\r\n", "");
}

static void redirect_file(const struct request *q)
{
    answer(q, "302 Found", "Location: file:///etc/hostname\r\n", "");
}

static void redirect_user(const struct request *q)
{
    answer(q, "302 Found", "Location: http://user:secret@127.0.0.1:1/\r\n", "");
}

static void redirect_loopback(const struct request *q)
{
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    char line[64];

    getsockname(q->fd, (struct sockaddr *)&a, &n);
    snprintf(line, sizeof line, "Location: http://127.0.0.1:%d/ok\r\n", ntohs(a.sin_port));
    answer(q, "302 Found", line, "");
}

static void redirect_metadata(const struct request *q)
{
    answer(q, "302 Found", "Location: http://169.254.169.254/latest/\r\n", "");
}

static const struct page {
    const char *path;
    void (*serve)(const struct request *q);
} pages[] = {
    { "/ok", ok },
    { "/missing", missing },
    { "/broken", broken },
    { "/echo", echo },
    { "/hang", hang },
    { "/endless-body", endless_body },
    { "/endless-head", endless_head },
    { "/cut", cut },
    { "/silent", silent },
    { "/garbage", garbage },
    { "/redirect", redirect },
    { "/round", redirect_round },
    { "/redirect-file", redirect_file },
    { "/redirect-user", redirect_user },
    { "/redirect-loopback", redirect_loopback },
    { "/redirect-metadata", redirect_metadata },
};

static bool read_head(struct request *q)
{
    size_t n = 0;

    q->head[0] = '\0';
    while (!strstr(q->head, "\r\n\r\n")) {
        if (n + 1 == sizeof q->head || read(q->fd, q->head + n, 1) != 1)
            return false;
        q->head[++n] = '\0';
    }
    return true;
}

static void serve_connection(struct request *q)
{
    while (read_head(q)) {
        struct str path, rest = str_cut(str_from(q->head), ' ', &path);

        str_cut(rest, ' ', &path);
        for (size_t i = 0; i < COUNT_OF(pages); i++)
            if (str_eq(path, str_from(pages[i].path)))
                pages[i].serve(q);
    }
    _exit(0);
}

static void serve(int listener)
{
    static struct request q;
    pid_t self = getpid();

    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        q.fd = accept(listener, NULL, NULL);
        q.connection++;
        if (q.fd < 0)
            _exit(1);
        if (fork() == 0) {
            die_with(self);
            serve_connection(&q);
        }
        close(q.fd);
    }
}

static int bound(uint32_t at, int *ret_port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(at) };
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static int start_at(uint32_t at)
{
    int port, fd = bound(at, &port);
    pid_t self = getpid();

    CHECK(listen(fd, 128) == 0);
    if (fork() == 0) {
        die_with(self);
        serve(fd);
    }
    close(fd);
    return port;
}

int server_start(void)
{
    return start_at(INADDR_LOOPBACK);
}

int server_start_everywhere(void)
{
    return start_at(INADDR_ANY);
}

/* Bound, and so given to nobody else, but not listening. */
int server_dead_port(void)
{
    int port;

    (void)bound(INADDR_LOOPBACK, &port);
    return port;
}

static void run_tls_server(pid_t parent, int out, const char *key, const char *cert)
{
    static const char script[] =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \\\n"
        "    -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout $1 -out $2 2>&1 &&\n"
        "exec openssl s_server -accept 127.0.0.1:0 -key $1 -cert $2 -www 2>&1\n";

    die_with(parent);
    dup2(out, STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", script, "sh", key, cert, NULL);
    _exit(127);
}

/* A file in memory that other processes can open for as long as this one lives. */
static void make_file(char *path, size_t cap)
{
    snprintf(path, cap, "/proc/%d/fd/%d", getpid(), memfd_create("tls", MFD_CLOEXEC));
}

int server_start_tls(char *ca_file, size_t cap)
{
    char key[64], line[256];
    int out[2], port = 0;
    pid_t self = getpid();
    FILE *f;

    make_file(key, sizeof key);
    make_file(ca_file, cap);
    CHECK(pipe2(out, O_CLOEXEC) == 0);
    if (fork() == 0)
        run_tls_server(self, out[1], key, ca_file);
    close(out[1]);
    f = fdopen(out[0], "r");
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "ACCEPT 127.0.0.1:%d", &port) == 1)
            return port; /* f stays open: the server goes on writing */
    SKIP("openssl s_server cannot be started: %s", line);
}
