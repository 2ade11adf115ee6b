/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's side of the fetch process, with a process that was taken over: whatever it
 * sends, in whatever order, each request ends once and within its limits, and the client goes on.
 * The input is a series of packets, each behind two bytes of length; bit 15 lets the client work
 * first. Requests 1 and 2 run: the second takes pieces. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "engine/fetcher/fetcher.h"
#include "lib/ipc/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 100 };

static struct loop loop;
static struct fetcher fetcher;
static struct fetcher_share share;
static int theirs = -1;

struct wish {
    struct fetch_request request;
    int calls;
};

static void must(bool good)
{
    if (!good)
        abort();
}

static int start_pair(void *user, int *ret, uint64_t *ret_id, struct err *e)
{
    int pair[2];

    must(ipc_pair(pair, e) >= 0);
    drop_fd(&theirs);
    theirs = pair[1];
    fcntl(theirs, F_SETFL, O_NONBLOCK);
    *ret = pair[0];
    *ret_id = 1;
    return 0;
}

static void on_done(struct fetch_request *r, const struct fetch_answer *a)
{
    struct wish *w = container_of(r, struct wish, request);

    must(w->calls++ == 0);
    must(memchr(a->err.msg, 0, sizeof a->err.msg) != NULL);
    must(a->err.code != ERR_OK || (a->status >= 100 && a->status <= 999));
    must(a->body.n <= BODY_MAX && a->header_count <= FETCH_HEADERS_MAX);
    (void)fetch_answer_header(a, "Location");
    must(fetch_answer_redirect(a).n <= FETCH_URL_MAX);
}

static int on_piece(struct fetch_request *r, const struct fetch_answer *head, struct str piece,
                    struct err *e)
{
    must(container_of(r, struct wish, request)->calls == 0);
    must(head->status == 200 || head->status == 206);
    must(piece.n > 0 && piece.n <= FETCHER_PIECE_MAX);
    if (piece.p[0] == 'x')
        return err_set(e, ERR_FULL, "no room");
    return piece.p[0] == 'h' ? FETCH_HOLD : FETCH_TAKEN;
}

static void start_wish(struct wish *w, bool pieces)
{
    struct err e;

    *w = (struct wish){ .request = { .url = "https://a.example/",
                                     .timeout = 3600 * NS_PER_S,
                                     .max_body = BODY_MAX,
                                     .piece = pieces ? on_piece : NULL,
                                     .done = on_done } };
    must(fetcher_start(&share, &w->request, &e) >= 0);
}

static void run_loop(void)
{
    struct err e;

    for (int i = 0; i < 3; i++)
        must(loop_run_once(&loop, 0, &e) >= 0);
}

/* A full queue is the process's own problem; so is a socket that was closed. */
static void send_input(const uint8_t *data, size_t size)
{
    while (size > 2 && theirs >= 0) {
        size_t n = (size_t)(data[0] | (data[1] & 0x7f) << 8);

        if (data[1] & 0x80)
            run_loop();
        data += 2;
        size -= 2;
        n = n < size ? n : size;
        if (n)
            (void)!send(theirs, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        data += n;
        size -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wish one, two;
    struct err e;

    signal(SIGPIPE, SIG_IGN);
    must(loop_init(&loop, &e) >= 0);
    fetcher = (struct fetcher){ .loop = &loop, .start = start_pair };
    fetcher_init(&fetcher);
    fetcher_share_init(&share, &fetcher, 4);
    start_wish(&one, false);
    start_wish(&two, true);
    run_loop();
    send_input(data, size);
    run_loop();
    fetcher_share_done(&share);
    must(share.running == 0 && one.calls <= 1 && two.calls <= 1);
    fetcher_done(&fetcher);
    drop_fd(&theirs);
    loop_done(&loop);
    return 0;
}
