/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/own.h"
#include "cli/tunnel.h"
#include "cli/verbs/verbs.h"

enum { CONNECTIONS_MAX = 256, BACKLOG = 64, ADDRESS_MAX = 64 };

struct port_options {
    struct common common;
    const char *listen;
    bool stdio;
};

#define AT(member) .at = offsetof(struct port_options, member)

static const struct option_spec options[] = {
    { "listen", 'l', "[ADDRESS:]PORT", "where to listen; else a free port of 127.0.0.1",
      AT(listen) },
    { "stdio", 0, NULL, "connect stdin and stdout instead of listening", AT(stdio) },
};

/* --- where to listen --- */

/* "[ADDRESS:]PORT" into what getaddrinfo() takes; an IPv6 address is in brackets. */
static bool split_listen_address(const char *text, char host[ADDRESS_MAX], char port[8])
{
    const char *colon = strrchr(text, ':');
    struct str address = colon ? (struct str){ text, (size_t)(colon - text) } : STR("127.0.0.1");
    uint64_t number;

    if (address.n > 2 && address.p[0] == '[' && address.p[address.n - 1] == ']')
        address = (struct str){ address.p + 1, address.n - 2 };
    if (!address.n || address.n >= ADDRESS_MAX ||
        !str_to_u64(str_from(colon ? colon + 1 : text), &number) || number > UINT16_MAX)
        return false;
    snprintf(host, ADDRESS_MAX, STR_FMT, STR_ARG(address));
    snprintf(port, 8, "%u", (unsigned)number);
    return true;
}

static int listen_at(const struct addrinfo *a, struct err *e)
{
    AUTO_CLOSE int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;

    if (fd < 0)
        return err_sys(e, "making a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(e, "listening");
    return take_fd(&fd);
}

static int open_port_listener(const char *text, struct err *e)
{
    static const struct addrinfo numbers = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                             .ai_socktype = SOCK_STREAM };
    char host[ADDRESS_MAX], port[8];
    struct addrinfo *found;
    int fd;

    if (!split_listen_address(text, host, port) || getaddrinfo(host, port, &numbers, &found) != 0)
        return err_set(e, ERR_INVALID, "'%.80s' is not an address to listen at; 127.0.0.1:8080 is",
                       text);
    fd = listen_at(found, e);
    freeaddrinfo(found);
    return fd < 0 ? err_wrap(e, fd, "%.80s", text) : fd;
}

/* --- connections, a process each --- */

static int connect_port(const struct api_call *like, char **argv, int from, int to)
{
    struct tunnel t;
    int status = tunnel_open(&t, like->verb, like->common, argv[0], argv[1]);

    if (!status)
        tunnel_relay(&t, from, to);
    tunnel_done(&t);
    return status;
}

static void serve_port(const struct api_call *like, char **argv, int listener)
    __attribute__((noreturn));
static void serve_port(const struct api_call *like, char **argv, int listener)
{
    unsigned n = 0;

    for (;;) {
        AUTO_CLOSE int client = accept(listener, NULL, NULL);
        pid_t pid;

        while (n && waitpid(-1, NULL, n == CONNECTIONS_MAX ? 0 : WNOHANG) > 0)
            n--;
        if (client < 0)
            continue;
        pid = fork();
        if (pid == 0) {
            close(listener);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            fcntl(client, F_SETFL, O_NONBLOCK);
            _exit(connect_port(like, argv, client, client));
        }
        n += pid > 0;
    }
}

/* --- the beginning --- */

static int print_listen_address(const struct port_options *o, int listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = { .any.sa_family = AF_UNSPEC };
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN] = "";
    bool v6;

    if (getsockname(listener, &a.any, &n) < 0)
        return -1;
    v6 = a.any.sa_family == AF_INET6;
    inet_ntop(a.any.sa_family, v6 ? (const void *)&a.v6.sin6_addr : (const void *)&a.v4.sin_addr,
              text, sizeof text);
    printf(common_format(&o->common) == FORMAT_JSON ? "{\"address\":\"%s%s%s:%u\"}\n"
                                                    : "%s%s%s:%u\n",
           v6 ? "[" : "", text, v6 ? "]" : "", ntohs(v6 ? a.v6.sin6_port : a.v4.sin_port));
    return fflush(stdout);
}

/* Reports a missing sandbox now rather than at the first connection. */
static int check_sandbox_port(struct api_call *c, char **argv)
{
    int status;

    api_call_path(c, "/v1/sandboxes/%s/ports/%s", argv[0], argv[1]);
    status = api_call_run(c);
    if (!status && show_at(c->answer, "open") && !show_true(c->answer, "open"))
        cli_report("nothing listens on port %s of %s yet", argv[1], argv[0]);
    return status;
}

static int run_port(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct port_options *o = options_;
    AUTO_CLOSE int listener = -1;
    struct err e;
    int status;

    signal(SIGPIPE, SIG_IGN);
    if (o->stdio)
        return connect_port(c, argv, STDIN_FILENO, STDOUT_FILENO);
    status = check_sandbox_port(c, argv);
    if (status)
        return status;
    listener = open_port_listener(o->listen ? o->listen : "0", &e);
    if (listener < 0)
        return verb_misused(c->verb, "%s", e.msg);
    if (print_listen_address(o, listener) < 0)
        return EXIT_TOOL_FAILED; /* the address could not be printed */
    serve_port(c, argv, listener);
}

const struct verb verb_port = {
    .name = "port",
    ARGUMENTS("ID PORT", 2, 2, COMPLETE_SANDBOX),
    .summary = "reach a port inside a sandbox",
    .text = "Listens here and forwards connections to that port inside, until it is interrupted.\n"
            "The listening address is printed first. The port inside is not opened on any\n"
            "interface of the host, and the server inside needs no configuration.\n"
            "\n"
            "  sandboxer port sbx_4k7 8080\n"
            "  sandboxer port sbx_4k7 5432 --listen 5432\n"
            "  ssh -o ProxyCommand='sandboxer port --stdio sbx_4k7 22' user@sandbox\n",
    OPTIONS(options, struct port_options),
    .run = run_port,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
