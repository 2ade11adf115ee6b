/* SPDX-License-Identifier: Apache-2.0 */
/* Times requests to a daemon's unix socket, without a client's start-up in the figures.
 *
 *     api-timer SOCKET create N [PROFILE]   create until ready; each is destroyed before the next
 *     api-timer SOCKET keep N [PROFILE]     the same, but the sandboxes stay
 *     api-timer SOCKET burst N [PROFILE]    N creates at once, one connection each; then destroys
 *     api-timer SOCKET exec N ID ARG...     a program, until its end is reported
 *     api-timer SOCKET get N ID             one GET after the other
 *     api-timer SOCKET list N               a page of 100
 *     api-timer SOCKET cycles N PROFILE     create, exec `true`, destroy; CLIENTS connections at
 * once api-timer - spawns N ARG...           fork, exec and wait; CLIENTS threads at once api-timer
 * - spawn N ARG...            fork, exec and wait, one after the other
 *
 * Prints nanoseconds, one figure a line; `burst` prints "failed" for a sandbox that did not become
 * ready, `cycles` and `spawns` print one figure, the time of all N. */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/client.h"

enum { BURST_MAX = 1000, CLIENTS = 2 };

static const char *socket_path;
static const char *profile = "profile.sandbox-canary";

static void fail(const char *what)
{
    fprintf(stderr, "api-timer: %s\n", what);
    exit(1);
}

static int dial(void)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        fail("nobody answers on the socket");
    return fd;
}

/* One exchange; the body of the answer goes to `out`. */
static int ask(struct http_client *c, const char *method, const char *target, const char *body,
               struct buf *out)
{
    static const struct h1_field fields[] = { { { "Accept", 6 }, { "application/json", 16 } } };
    const struct http_client_request q = { .method = str_from(method),
                                           .target = str_from(target),
                                           .fields = fields,
                                           .n = 1,
                                           .body = str_from(body) };
    const struct h1_response *head;
    struct str piece;
    struct err e;
    int r;

    buf_clear(out);
    if (http_client_send(c, &q, &e) < 0 || http_client_head(c, &head, &e) < 0)
        fail(e.msg);
    while ((r = http_client_read(c, &piece, &e)) > 0)
        buf_add(out, piece);
    if (r < 0)
        fail(e.msg);
    return head->status;
}

static bool find_id(const struct buf *answer, char *id, size_t cap)
{
    const char *at = answer->p ? strstr(answer->p, "\"sandbox_id\":\"") : NULL;

    if (!at)
        return false;
    at += strlen("\"sandbox_id\":\"");
    return str_copy((struct str){ at, strcspn(at, "\"") }, id, cap);
}

static int64_t create_one(struct http_client *c, struct buf *answer, char *id, size_t cap)
{
    int64_t start = clock_mono(), took;
    char body[160];
    int status;

    snprintf(body, sizeof body, "{\"profile\":\"%s\"}", profile);
    status = ask(c, "POST", "/v1/sandboxes", body, answer);
    took = clock_mono() - start;
    if (status != 201 || !strstr(answer->p, "\"state\":\"ready\"") || !find_id(answer, id, cap))
        return -1;
    return took;
}

static void destroy_one(struct http_client *c, struct buf *answer, const char *id)
{
    char target[96];

    snprintf(target, sizeof target, "/v1/sandboxes/%s", id);
    if (ask(c, "DELETE", target, "", answer) != 200)
        fail(answer->p);
}

static void print(int64_t ns)
{
    if (ns < 0)
        puts("failed");
    else
        printf("%lld\n", (long long)ns);
}

static void time_create(long n, bool keep)
{
    struct buf answer = BUF_INIT(1 << 20);
    struct http_client c;
    char id[64];

    http_client_init(&c, dial(), 0);
    for (long i = 0; i < n; i++) {
        int64_t took = create_one(&c, &answer, id, sizeof id);

        print(took);
        if (took >= 0 && !keep)
            destroy_one(&c, &answer, id);
    }
}

static void time_request(long n, const char *method, const char *target, const char *body)
{
    struct buf answer = BUF_INIT(8 << 20);
    struct http_client c;

    http_client_init(&c, dial(), 0);
    for (long i = 0; i < n; i++) {
        int64_t start = clock_mono();
        int status = ask(&c, method, target, body, &answer);

        if (status != 200)
            fail(answer.p);
        print(clock_mono() - start);
    }
}

static void exec_body(char **argv, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "{\"argv\":[");

    for (int i = 0; argv[i]; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s\"%s\"", i ? "," : "", argv[i]);
    snprintf(out + n, cap - n, "]}");
}

struct burst {
    pthread_t thread;
    int64_t took;
    char id[64];
};

static pthread_barrier_t together;

static void *burst_run(void *arg)
{
    struct burst *b = arg;
    struct buf answer = BUF_INIT(1 << 20);
    struct http_client c;

    http_client_init(&c, dial(), 0);
    pthread_barrier_wait(&together);
    b->took = create_one(&c, &answer, b->id, sizeof b->id);
    pthread_barrier_wait(&together);
    if (b->took >= 0)
        destroy_one(&c, &answer, b->id);
    return NULL;
}

static void time_burst(long n)
{
    struct burst *all = calloc((size_t)n, sizeof *all);

    pthread_barrier_init(&together, NULL, (unsigned)n);
    for (long i = 0; i < n; i++)
        if (pthread_create(&all[i].thread, NULL, burst_run, &all[i]) != 0)
            fail("no thread");
    for (long i = 0; i < n; i++) {
        pthread_join(all[i].thread, NULL);
        print(all[i].took);
    }
}

static void spawn_one(char **argv)
{
    extern char **environ;
    int status = 0;
    pid_t pid;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) < 0)
        fail("cannot start the program");
    if (status != 0)
        fail("the program failed");
}

static void time_spawn(long n, char **argv)
{
    for (long i = 0; i < n; i++) {
        int64_t start = clock_mono();

        spawn_one(argv);
        print(clock_mono() - start);
    }
}

/* Jobs that CLIENTS threads take one by one. */
struct jobs {
    atomic_long left;
    char **argv; /* of the program to spawn */
};

static void *run_cycles(void *arg)
{
    struct jobs *jobs = arg;
    struct buf answer = BUF_INIT(1 << 20);
    struct http_client c;
    char id[64], target[128];

    http_client_init(&c, dial(), 0);
    while (atomic_fetch_sub(&jobs->left, 1) > 0) {
        if (create_one(&c, &answer, id, sizeof id) < 0)
            fail(answer.p);
        snprintf(target, sizeof target, "/v1/sandboxes/%s/processes", id);
        if (ask(&c, "POST", target, "{\"argv\":[\"true\"]}", &answer) != 200)
            fail(answer.p);
        destroy_one(&c, &answer, id);
    }
    return NULL;
}

static void *run_spawns(void *arg)
{
    struct jobs *jobs = arg;

    while (atomic_fetch_sub(&jobs->left, 1) > 0)
        spawn_one(jobs->argv);
    return NULL;
}

static void time_jobs(long n, char **argv, void *(*run)(void *))
{
    struct jobs jobs = { .left = n, .argv = argv };
    pthread_t threads[CLIENTS];
    int64_t start = clock_mono();

    for (int i = 0; i < CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, run, &jobs) != 0)
            fail("cannot start a thread");
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    print(clock_mono() - start);
}

int main(int argc, char **argv)
{
    char target[128], body[4096];
    long n;

    if (argc < 4)
        fail("SOCKET create|exec|get|list|burst|keep|cycles|spawns|spawn N ...");
    socket_path = argv[1];
    n = strtol(argv[3], NULL, 10);
    if (n < 1 || n > 1000000)
        fail("N is 1 to 1000000");
    if (strcmp(argv[2], "create") == 0 || strcmp(argv[2], "keep") == 0) {
        profile = argc > 4 ? argv[4] : profile;
        time_create(n, argv[2][0] == 'k');
    } else if (strcmp(argv[2], "burst") == 0 && n <= BURST_MAX) {
        profile = argc > 4 ? argv[4] : profile;
        time_burst(n);
    } else if (strcmp(argv[2], "list") == 0) {
        time_request(n, "GET", "/v1/sandboxes?limit=100", "");
    } else if (strcmp(argv[2], "get") == 0 && argc > 4) {
        snprintf(target, sizeof target, "/v1/sandboxes/%s", argv[4]);
        time_request(n, "GET", target, "");
    } else if (strcmp(argv[2], "exec") == 0 && argc > 5) {
        snprintf(target, sizeof target, "/v1/sandboxes/%s/processes", argv[4]);
        exec_body(argv + 5, body, sizeof body);
        time_request(n, "POST", target, body);
    } else if (strcmp(argv[2], "cycles") == 0 && argc > 4) {
        profile = argv[4];
        time_jobs(n, NULL, run_cycles);
    } else if (strcmp(argv[2], "spawns") == 0 && argc > 4) {
        time_jobs(n, argv + 4, run_spawns);
    } else if (strcmp(argv[2], "spawn") == 0 && argc > 4) {
        time_spawn(n, argv + 4);
    } else {
        fail("unknown verb, or too few arguments");
    }
    return 0;
}
