/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/learn.h"

#include <errno.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/policy/egress_file.h"
#include "engine/egress/learn/answer.h"
#include "engine/egress/learn/audit_policy.h"
#include "engine/egress/learn/proof.h"
#include "engine/egress/limits.h"
#include "lib/json/reader.h"

enum {
    QUESTION_MAX = 8 << 20, /* the base is a JSON string in it */
    QUESTION_MEMORY = 16 << 20,
    PIECE = 64 << 10,
};

#define AT(member) JSON_AT(struct learn_choices, member)
static const struct json_field question_fields[] = {
    { "base", JSON_KIND_STR, AT(base), .max = EGRESS_FILE_BYTES_MAX },
    { "merge", JSON_KIND_UINT, AT(merge), .max = 1000 },
    { "programs", JSON_KIND_BOOL, AT(programs) },
    { "suspicious", JSON_KIND_BOOL, AT(suspicious) },
    { "denied", JSON_KIND_BOOL, AT(denied) },
    { "keep", JSON_KIND_BOOL, AT(keep) },
    { "audit", JSON_KIND_BOOL, AT(audit) },
};
#undef AT

/* The input so far. */
struct learning {
    struct learn_choices choices;
    struct arena arena; /* of the question */
    bool asked;         /* the question was read */
    bool skipping;      /* the rest of a line that is too long */
    struct buf line;
    struct learn_log log;
};

static int read_question(struct learning *l, struct str line, struct err *e)
{
    static const struct json_limits limits = { .bytes = QUESTION_MAX, .depth = 4 };
    const struct json *v;
    int r = json_read(line, limits, &l->arena, &v, e);

    if (r >= 0)
        r = json_bind(v, question_fields, COUNT_OF(question_fields), &l->choices, &l->arena, e);
    l->asked = true;
    return err_wrap(e, r, "the question");
}

static int take_log_line(struct learning *l, struct str line, struct err *e)
{
    if (!l->asked)
        return read_question(l, line, e);
    if (line.n)
        learn_log_add(&l->log, line);
    return 0;
}

/* A line of the log that is too long is counted and skipped. */
static int take_log_part(struct learning *l, struct str part, bool whole, struct err *e)
{
    size_t most = l->asked ? EGRESS_AUDIT_LINE_MAX : QUESTION_MAX;
    int r = 0;

    if (!l->skipping && l->line.n + part.n > most) {
        if (!l->asked)
            return err_set(e, ERR_TOO_BIG, "the question has more than %d bytes", QUESTION_MAX);
        l->skipping = true;
        l->log.unreadable++;
    }
    if (!l->skipping)
        r = buf_add(&l->line, part);
    if (r >= 0 && whole && !l->skipping)
        r = take_log_line(l, buf_str(&l->line), e);
    if (whole) {
        buf_clear(&l->line);
        l->skipping = false;
    }
    return r;
}

static int take_log_piece(struct learning *l, struct str piece, struct err *e)
{
    int r = 0;

    while (piece.n && r >= 0) {
        struct str part, rest = str_cut(piece, '\n', &part);

        r = take_log_part(l, part, rest.p, e);
        piece = rest;
    }
    return r;
}

static int answer_question(struct learning *l, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(learn_proposal_done) struct learn_proposal p;
    int r;

    learn_proposal_init(&p, &l->log);
    if (!l->asked)
        return err_set(e, ERR_INVALID, "the input ends before the question");
    if (l->choices.audit)
        return learn_audit_policy(str_from(l->choices.base), out, e);
    r = learn_propose(&p, &l->choices, &a, e);
    if (r >= 0)
        r = learn_prove(&p, &l->choices, e);
    return r < 0 ? r : learn_answer_write(&p, &l->choices, out, e);
}

static void learning_init(struct learning *l)
{
    *l = (struct learning){ .arena = ARENA_INIT(QUESTION_MEMORY), .line = BUF_INIT(QUESTION_MAX) };
    learn_log_init(&l->log);
}

static void learning_done(struct learning *l)
{
    learn_log_done(&l->log);
    buf_done(&l->line);
    arena_done(&l->arena);
}

int learn_text(struct str input, struct buf *out, struct err *e)
{
    AUTO(learning_done) struct learning l;
    int r;

    learning_init(&l);
    r = take_log_piece(&l, input, e);
    return r < 0 ? r : answer_question(&l, out, e);
}

int learn_run(int fd, struct buf *out, struct err *e)
{
    AUTO(learning_done) struct learning l;
    static char piece[PIECE];
    ssize_t n;
    int r = 0;

    learning_init(&l);
    while (r >= 0 && (n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading the log");
        if (n > 0)
            r = take_log_piece(&l, (struct str){ piece, (size_t)n }, e);
    }
    return r < 0 ? r : answer_question(&l, out, e);
}
