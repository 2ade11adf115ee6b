/* SPDX-License-Identifier: Apache-2.0 */
/* The records of an upload mean the same however they arrive, and what passes is within the limits.
 * What is looked at lies in a heap block of just its size, so that a look behind its end does not
 * go unseen. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/ipc/control.h"
#include "lib/ipc/upload.h"

enum { SEEN_MAX = 32 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_event(const struct upload_records *u, const struct upload_event *v,
                        struct buf *seen)
{
    must(u->files <= UPLOAD_FILES_MAX && u->text <= UPLOAD_TEXT_MAX);
    must(u->over == (v->kind == UPLOAD_ALL_CAME));
    if (v->kind == UPLOAD_FILE_BEGINS) {
        must(v->data.n > 0 && v->data.n < CONTROL_PATH_MAX && v->data.p[0] == '/');
        must(!memchr(v->data.p, '\0', v->data.n));
        must(buf_add(seen, STR("\nfile ")) >= 0);
    } else if (v->kind == UPLOAD_FILE_BYTES) {
        must(v->data.n > 0 && u->files > 0);
    } else {
        must(v->data.n == 0);
    }
    must(buf_add(seen, v->data) >= 0);
}

/* Comes in pieces: what it ends with, which is 1 for a whole upload. */
static int take_pieces(struct str in, size_t piece, struct buf *seen)
{
    struct upload_records u = { 0 };
    size_t at = 0, came = 0;

    for (;;) {
        size_t n = came - at;
        AUTO_FREE char *copy = malloc(n ? n : 1);
        struct upload_event v;
        ssize_t taken;

        must(copy);
        memcpy(copy, in.p + at, n);
        taken = upload_next(&u, (struct str){ copy, n }, &v, NULL);
        if (taken < 0)
            return (int)taken;
        must((size_t)taken <= n);
        check_event(&u, &v, seen);
        if (u.over)
            return 1;
        at += (size_t)taken;
        if (taken)
            continue;
        must(n < UPLOAD_RECORD_MAX);
        if (came == in.n)
            return 0;
        came = in.n - came < piece ? in.n : came + piece;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = { 1, 7, UPLOAD_RECORD_MAX };
    AUTO(buf_done) struct buf whole = BUF_INIT(SEEN_MAX);
    struct str in = { (const char *)data, size };
    int r;

    if (size == 0 || size > UPLOAD_RECORD_MAX)
        return 0;
    r = take_pieces(in, size, &whole);
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        AUTO(buf_done) struct buf seen = BUF_INIT(SEEN_MAX);

        must(take_pieces(in, pieces[i], &seen) == r);
        must(str_eq(buf_str(&seen), buf_str(&whole)));
    }
    return 0;
}
