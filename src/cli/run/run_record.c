#include "cli/run_record.h"

#include "base/own.h"
#include "cli/call.h"
#include "cli/lines.h"
#include "cli/write.h"

int run_record_open(struct run_record *r, const struct network_options *o, struct err *e)
{
    return network_log_open(o, &r->log, e);
}

void run_record_done(struct run_record *r)
{
    drop_fd(&r->log);
}

void run_record_of(struct run_record *r, struct str sandbox)
{
    str_copy(sandbox, r->sandbox, sizeof r->sandbox);
}

static int take_piece(struct run_record *r, struct lines *lines, struct str piece, struct err *e)
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

static int fetch(struct run_record *r, const struct verb *v)
{
    static const struct common common;
    AUTO(lines_done) struct lines lines = LINES_INIT;
    AUTO(call_done) struct call c;
    struct str piece;
    struct err e;
    int status;

    call_init(&c, v, &common, "GET");
    c.start = CONTACT_ONLY;
    call_path(&c, "/v1/sandboxes/%s/egress/log", r->sandbox);
    status = call_open(&c);
    while (status == 0 && call_next(&c, &piece, &status) > 0)
        if (take_piece(r, &lines, piece, &e) < 0)
            status = call_failed(&c, &e);
    return status ? -(int)ERR_UPSTREAM : 0;
}

int run_record_end(struct run_record *r, const struct verb *v, bool quiet)
{
    int ret = r->sandbox[0] ? fetch(r, v) : 0;

    if (!quiet)
        denials_say(&r->denials);
    return ret;
}
