/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/learn/learner.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/json/writer.h"

enum { QUESTION_MAX = 8 << 20 };

static const char *const learn_arguments[] = { "--learn", NULL };

static void write_question_flag(struct json_writer *w, const char *key, bool set)
{
    if (set)
        json_field_bool(w, key, true);
}

/* A line. */
static int write_learn_question(const struct learn_question *q, bool audit, struct buf *out,
                                struct err *e)
{
    struct json_writer w;
    int r;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    if (q->base.n)
        json_field_str(&w, "base", q->base);
    if (q->merge)
        json_field_uint(&w, "merge", strtoul(q->merge, NULL, 10)); /* a checked number */
    write_question_flag(&w, "programs", q->programs);
    write_question_flag(&w, "suspicious", q->suspicious);
    write_question_flag(&w, "denied", q->denied);
    write_question_flag(&w, "keep", q->keep);
    write_question_flag(&w, "audit", audit);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : buf_add_c(out, '\n');
}

int learner_start(struct learner *l, const struct learn_question *q, struct err *e)
{
    AUTO(buf_done) struct buf question = BUF_INIT(QUESTION_MAX);
    AUTO_CLOSE int theirs = -1;
    int ends[2], r = write_learn_question(q, false, &question, e);

    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe for the log");
    theirs = ends[0];
    l->log = ends[1];
    signal(SIGPIPE, SIG_IGN); /* if it dies, its end reports better why */
    r = helper_start(HELPER_EGRESS, learn_arguments, theirs, &l->call, e);
    if (r >= 0)
        (void)write_all(l->log, buf_str(&question), NULL);
    return r;
}

int learner_finish(struct learner *l, struct buf *out, struct err *e)
{
    drop_fd(&l->log);
    return helper_finish(&l->call, out, e);
}

void learner_done(struct learner *l)
{
    drop_fd(&l->log);
    helper_call_done(&l->call);
}

int learner_audit_policy(struct str base, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf question = BUF_INIT(QUESTION_MAX);
    int r = write_learn_question(&(struct learn_question){ .base = base }, true, &question, e);

    return r < 0 ? r : helper_run_text(HELPER_EGRESS, learn_arguments, buf_str(&question), out, e);
}
