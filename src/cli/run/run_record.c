/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_record.h"

#include "base/own.h"
#include "cli/api_call.h"
#include "cli/lines.h"
#include "base/io.h"

void run_record_done(struct run_record *r)
{
    drop_fd(&r->log);
}

static int record_log_piece(struct run_record *r, struct lines *lines, struct str piece,
                            struct err *e)
{
    struct str line;
    int ret = r->log < 0 ? 0 : write_all(r->log, piece, e);

    if (ret < 0)
        return err_wrap(e, ret, "--egress-log");
    ret = lines_feed(lines, piece, e);
    while (ret >= 0 && lines_next(lines, &line))
        denials_add(&r->denials, line);
    return ret;
}

static int fetch_egress_log(struct run_record *r, const struct verb *v)
{
    static const struct common common;
    AUTO(lines_done) struct lines lines = LINES_INIT;
    AUTO(api_call_done) struct api_call c;
    struct str piece;
    struct err e;
    int status;

    api_call_init(&c, v, &common, "GET");
    c.start = CONTACT_ONLY;
    api_call_path(&c, "/v1/sandboxes/%s/egress/log", r->sandbox);
    status = api_call_open(&c);
    while (status == 0 && api_call_next(&c, &piece, &status) > 0)
        if (record_log_piece(r, &lines, piece, &e) < 0)
            status = api_call_failed(&c, &e);
    return status ? -(int)ERR_UPSTREAM : 0;
}

int run_record_end(struct run_record *r, const struct verb *v, bool quiet)
{
    int ret = r->sandbox[0] ? fetch_egress_log(r, v) : 0;

    if (!quiet)
        denials_print(&r->denials);
    return ret;
}
