/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/output.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/own.h"

struct output_fds_ {
    size_t at; /* position in bytes_ of the byte they go with */
    size_t n;
    int fds[HTTP_FDS_MAX];
    struct output_fds_ *next;
};

void output_init(struct http_output *o)
{
    *o = (struct http_output){ 0 };
    buf_init(&o->bytes_, HTTP_RESPONSE_MAX + HTTP_QUEUE_HARD + H1_HEAD_MAX);
}

static void drop_first_fds(struct http_output *o)
{
    struct output_fds_ *first = o->fds_;

    o->fds_ = first->next;
    for (size_t i = 0; i < first->n; i++)
        close(first->fds[i]);
    free(first);
}

void output_done(struct http_output *o)
{
    while (o->fds_)
        drop_first_fds(o);
    buf_done(&o->bytes_);
    o->sent_ = 0;
}

size_t output_queued(const struct http_output *o)
{
    return o->bytes_.n - o->sent_;
}

int output_add(struct http_output *o, struct str s, struct err *e)
{
    /* Moves the rest to the front when that costs less than what it frees. */
    if (o->sent_ > 0 && o->sent_ >= o->bytes_.n / 2) {
        buf_drop(&o->bytes_, o->sent_);
        for (struct output_fds_ *f = o->fds_; f; f = f->next)
            f->at -= o->sent_;
        o->sent_ = 0;
    }
    if (buf_add(&o->bytes_, s) < 0)
        return err_set(e, ERR_TOO_BIG, "the client has %zu bytes of output waiting",
                       output_queued(o));
    return 0;
}

int output_add_fds(struct http_output *o, const int *fds, size_t n, struct err *e)
{
    struct output_fds_ *f, **last = &o->fds_;

    if (n == 0 || n > HTTP_FDS_MAX)
        return err_set(e, ERR_BUG, "%zu descriptors in one message; 1 to %d are possible", n,
                       HTTP_FDS_MAX);
    f = new0(sizeof(*f));
    f->at = o->bytes_.n;
    f->n = n;
    memcpy(f->fds, fds, n * sizeof(*fds));
    while (*last)
        last = &(*last)->next;
    *last = f;
    return 0;
}

union output_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(HTTP_FDS_MAX * sizeof(int))];
};

static void attach_output_fds(struct msghdr *m, union output_control *c,
                              const struct output_fds_ *f)
{
    size_t size = f->n * sizeof(int);
    struct cmsghdr *h;

    memset(c, 0, sizeof(*c));
    m->msg_control = c->bytes;
    m->msg_controllen = (socklen_t)CMSG_SPACE(size); /* musl has it narrower than glibc */
    h = &c->align;
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = (socklen_t)CMSG_LEN(size);
    memcpy(CMSG_DATA(h), f->fds, size);
}

/* How far one call may send: up to the next descriptors, which go with their own byte. */
static size_t queue_limit(const struct http_output *o)
{
    const struct output_fds_ *f = o->fds_;

    if (f && f->at == o->sent_)
        f = f->next;
    return f ? f->at : o->bytes_.n;
}

static size_t make_vector(const struct http_output *o, const struct str *parts, size_t n,
                          struct iovec *v)
{
    size_t limit = queue_limit(o), count = 0;

    if (limit > o->sent_)
        v[count++] = (struct iovec){ o->bytes_.p + o->sent_, limit - o->sent_ };
    for (size_t i = 0; i < n && limit == o->bytes_.n; i++)
        if (parts[i].n > 0) {
            union {
                const char *in;
                char *out;
            } base = { .in = parts[i].p }; /* iovec has no const */

            v[count++] = (struct iovec){ base.out, parts[i].n };
        }
    return count;
}

/* One call: bytes sent, 0 if the socket is full or nothing is left, or an error. */
static ssize_t send_once(struct http_output *o, int socket, const struct str *parts, size_t n,
                         struct err *e)
{
    struct iovec v[OUTPUT_PARTS_MAX + 1];
    size_t count = make_vector(o, parts, n, v);
    struct msghdr m = { .msg_iov = v, .msg_iovlen = (__typeof__(m.msg_iovlen))count };
    union output_control control;
    bool with_fds = o->fds_ && o->fds_->at == o->sent_; /* they are due */
    ssize_t sent;

    if (count == 0)
        return 0;
    if (with_fds)
        attach_output_fds(&m, &control, o->fds_);
    do
        sent = sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        /* Too many descriptors under way (ETOOMANYREFS) is the peer's not reading, as is a full
         * socket. */
        return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS
                   ? 0
                   : err_sys(e, "sending to the client");
    if (with_fds)
        drop_first_fds(o);
    return sent;
}

/* The unsent rest of the parts joins the queue. */
static int keep_rest(struct http_output *o, const struct str *parts, size_t n, size_t sent,
                     struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        size_t skip = sent < parts[i].n ? sent : parts[i].n;
        int r;

        sent -= skip;
        if (skip == parts[i].n)
            continue;
        r = output_add(o, (struct str){ parts[i].p + skip, parts[i].n - skip }, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static size_t take_sent(struct http_output *o, size_t sent)
{
    size_t queued = output_queued(o), of_queue = sent < queued ? sent : queued;

    o->sent_ += of_queue;
    if (output_queued(o) == 0) {
        buf_done(&o->bytes_); /* an idle connection holds no memory */
        o->sent_ = 0;
    }
    return sent - of_queue;
}

int64_t output_send(struct http_output *o, int socket, const struct str *parts, size_t n,
                    struct err *e)
{
    int64_t total = 0;

    for (;;) {
        ssize_t sent = send_once(o, socket, parts, n, e);
        int r;

        if (sent < 0)
            return sent;
        total += sent;
        r = keep_rest(o, parts, n, take_sent(o, (size_t)sent), e);
        if (r < 0)
            return r;
        n = 0;
        if (sent == 0 || output_queued(o) == 0)
            return total;
    }
}
