/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/feed.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"

/* An answer is sent as a whole: once it begins, a wait for its rest is short. */
#define PATIENCE_NS (5 * NS_PER_S)

static void drop_call(struct api_call **c)
{
    if (*c)
        api_call_done(*c);
    free(*c);
    *c = NULL;
}

void feed_done(struct feed *f)
{
    drop_call(&f->busy);
    drop_call(&f->last);
    drop_call(&f->before);
}

struct api_call *feed_call(const struct api_call *like, const char *method)
{
    struct api_call *c = new0(sizeof *c);

    api_call_init(c, like->verb, like->common, method);
    c->start = CONTACT_ONLY;
    c->patience = PATIENCE_NS;
    return c;
}

int feed_send(struct feed *f, struct api_call *c, struct err *e)
{
    int r = api_call_begin(c, e);

    feed_drop(f);
    f->busy = c;
    if (r < 0)
        feed_drop(f);
    return r;
}

void feed_drop(struct feed *f)
{
    drop_call(&f->busy);
    f->streams = false;
}

void feed_poll(const struct feed *f, struct pollfd *ret)
{
    *ret = (struct pollfd){ .fd = f->busy ? f->busy->contact.fd : -1, .events = POLLIN };
}

int feed_read(struct feed *f, struct err *e)
{
    int r = api_call_finish(f->busy, false, e);

    if (r < 0) {
        feed_drop(f);
        return r;
    }
    drop_call(&f->before);
    f->before = take_ptr(f->last);
    f->last = take_ptr(f->busy);
    return 0;
}

int feed_read_stream(struct feed *f, struct str *ret, struct err *e)
{
    int r = f->streams ? 0 : api_call_finish(f->busy, true, e);

    if (r >= 0) {
        f->streams = true;
        r = http_client_try(&f->busy->client, ret, e);
        if (r == 0)
            r = err_set(e, ERR_UPSTREAM, "the daemon ended the stream of events");
    }
    if (r < 0 && r != -(int)ERR_BUSY)
        feed_drop(f);
    return r == -(int)ERR_BUSY ? 0 : r;
}
