/* SPDX-License-Identifier: Apache-2.0 */
#include "control/event/audit_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"

enum {
    EVENTS_STEP = 2000, /* per query */
    HEADS_STEP = 32,
    PIECE = 64 << 10,
    FILE_STEP = 2 << 20, /* bytes that one job reads */
    TRIES = 4,           /* reads of a log that looks damaged */
    ANCHORS_MAX = 1 << 18,
};

#define RETENTION_SLACK_NS (15 * 60 * NS_PER_S) /* rows and files are not removed together */

/* A log that is being read; accessed by the thread while its job runs. */
struct log_reading {
    struct egress_head_record head; /* seq 0: none */
    struct chain_reader chain;
    unsigned char key[CHAIN_SIZE];
    struct chain_place *anchors;    /* with room for all anchors of the log */
    struct egress_link_parts parts; /* in order */
    int now;                        /* the part that is being written; -1: none */
    int fd;                         /* the part that is being read */
    size_t at_part;
    int64_t at;
    bool opened, finished, missing;
    unsigned tries;
};

struct audit_check {
    struct control *control;
    struct link link; /* in control->audit_checks */
    char caller[OWNER_MAX];
    struct audit_found found;
    struct audit_wanted wanted;
    char box[ID_MAX];
    audit_done_fn *done; /* NULL: stopped */
    void *user;
    struct store_query query;
    struct ledger_walk walk;
    struct ledger_anchor *anchors; /* of all events, by sandbox and seq */
    size_t n_anchors, cap_anchors, next_anchor;
    struct egress_head_record heads[HEADS_STEP];
    size_t n_heads, at_head;
    char after[ID_MAX];
    char current[ID_MAX]; /* the sandbox whose log is being read */
    bool last_page;
    struct log_reading reading;
    struct thread_job job;
    struct loop_later later;
    struct err err;
    int result;
};

/* --- ending --- */

static void close_log(struct log_reading *g)
{
    chain_reader_done(&g->chain);
    drop_fd(&g->now);
    drop_fd(&g->fd);
    free(take_ptr(g->anchors));
}

static void end_check(struct audit_check *x, int r, const struct err *e)
{
    link_leave(&x->link);
    x->control->changes--;
    if (x->done)
        x->done(x->user, r, e, &x->found);
    close_log(&x->reading);
    arena_done(&x->query.arena);
    free(x->anchors);
    free(x);
}

/* True: it was stopped, or the last step failed. */
static bool end_if_over(struct audit_check *x, int r, const struct err *e)
{
    if (x->done && r >= 0)
        return false;
    end_check(x, r, e);
    return true;
}

static void ask_store(struct audit_check *x, const struct store_query *q, store_answer_fn *answer)
{
    struct err e;
    int r;

    arena_done(&x->query.arena);
    x->query = *q;
    r = store_ask(x->control->store, &x->query, answer, &e);
    if (r < 0)
        end_check(x, r, &e);
}

void audit_check_stop(struct audit_check *x)
{
    x->done = NULL;
}

/* --- findings --- */

static struct audit_problem *add_audit_problem(struct audit_check *x, const char *chain,
                                               const char *kind)
{
    static struct audit_problem none; /* for problems that are only counted */
    size_t i = x->found.n_problems++;
    struct audit_problem *p = i < AUDIT_PROBLEMS_MAX ? &x->found.problems[i] : &none;

    *p = (struct audit_problem){ .kind = kind };
    snprintf(p->chain, sizeof p->chain, "%s", chain);
    return p;
}

static void collect_walk(struct audit_check *x)
{
    const struct ledger_walk *w = &x->walk;

    x->found.head = w->head;
    x->found.events = w->events;
    x->found.chained_from = w->head.first;
    x->found.expected = w->expected;
    for (size_t i = 0; i < w->n_findings; i++) {
        const struct ledger_finding *f = &w->findings[i < LEDGER_FINDINGS_MAX ? i : 0];
        struct audit_problem *p = add_audit_problem(x, "daemon", ledger_fault_names[f->fault]);

        p->seq = f->seq;
        p->time_ns = f->time_ns;
        ledger_explain(f, p->message, sizeof p->message);
    }
}

static void collect_log(struct audit_check *x)
{
    const struct log_reading *g = &x->reading;
    const struct chain_reader *c = &g->chain;
    const char *box = g->head.sandbox;

    x->found.sandboxes++;
    x->found.lines += c->lines;
    x->found.unchained_lines += c->unchained;
    if (x->box[0])
        x->found.last_line = c->last.seq;
    if (g->head.seq && !g->head.genuine)
        snprintf(add_audit_problem(x, box, "head_forged")->message,
                 sizeof x->found.problems[0].message,
                 "the record of its last line was written without the daemon's key");
    for (size_t i = 0; i < c->n_findings; i++) {
        const struct chain_finding *f = &c->findings[i < CHAIN_FINDINGS_MAX ? i : 0];
        struct audit_problem *p = add_audit_problem(x, box, chain_fault_names[f->fault]);

        p->seq = (int64_t)f->seq;
        p->time_ns = f->time_ms * NS_PER_MS;
        chain_explain(f, p->message, sizeof p->message);
        if (f->fault == CHAIN_SHORT && g->missing)
            snprintf(p->message, sizeof p->message,
                     "its egress log is missing: %llu lines are on record",
                     (unsigned long long)f->to);
    }
}

/* --- one log, on the pool's thread --- */

static ino_t find_inode(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static bool is_part_now(const struct control *c, const struct log_reading *g)
{
    AUTO_CLOSE int fd = -1;

    return egress_link_open_part(c, g->head.sandbox, EGRESS_LINK_PART_NOW, &fd, NULL) >= 0 &&
           find_inode(fd) == find_inode(g->now);
}

/* The current part is opened before the others are listed, and must still be the current one after
 * that: so no part is missed. False: there is no log. */
static bool open_log_parts(const struct control *c, struct log_reading *g)
{
    for (unsigned i = 0; i < TRIES; i++) {
        drop_fd(&g->now);
        if (egress_link_open_part(c, g->head.sandbox, EGRESS_LINK_PART_NOW, &g->now, NULL) < 0)
            g->now = -1;
        egress_link_list_parts(c, g->head.sandbox, &g->parts);
        if (g->now < 0 || is_part_now(c, g))
            break;
    }
    return g->parts.n > 0;
}

/* False: it expired meanwhile. */
static bool open_next_part(const struct control *c, struct log_reading *g)
{
    uint32_t part = g->parts.parts[g->at_part];

    drop_fd(&g->fd);
    if (part != EGRESS_LINK_PART_NOW || g->now < 0)
        return egress_link_open_part(c, g->head.sandbox, part, &g->fd, NULL) >= 0;
    g->fd = take_fd(&g->now);
    return true;
}

static void begin_log(const struct control *c, struct log_reading *g)
{
    g->opened = true;
    g->missing = !open_log_parts(c, g);
    g->chain.key = store_ledger_key(c->store) ? g->key : NULL;
    if (g->head.genuine) {
        g->chain.cut.seq = g->head.cut_seq;
        memcpy(g->chain.cut.digest, g->head.cut_digest, CHAIN_SIZE);
    }
    g->chain.anchors = g->anchors;
}

static void run_reading(struct thread_job *j)
{
    static _Thread_local char piece[PIECE];
    struct audit_check *x = container_of(j, struct audit_check, job);
    const struct control *c = x->control;
    struct log_reading *g = &x->reading;
    size_t left = FILE_STEP;

    if (!g->opened)
        begin_log(c, g);
    while (left && g->at_part < g->parts.n) {
        ssize_t n = 0;

        if (g->fd >= 0 || open_next_part(c, g))
            n = pread(g->fd, piece, sizeof piece, g->at);
        if (n <= 0) {
            chain_end_file(&g->chain);
            drop_fd(&g->fd);
            g->at_part++;
            g->at = 0;
            continue;
        }
        chain_read_text(&g->chain, (struct str){ piece, (size_t)n });
        g->at += n;
        left = left > (size_t)n ? left - (size_t)n : 0;
    }
    if (g->at_part == g->parts.n && !g->finished) {
        chain_end(&g->chain);
        g->finished = true;
    }
}

/* --- the logs --- */

static void next_log(struct audit_check *x);
static void query_heads(struct audit_check *x);
static void start_log(struct audit_check *x, const struct egress_head_record *h, unsigned tries);

static int compare_anchors(const void *a, const void *b)
{
    const struct ledger_anchor *x = a, *y = b;
    int box = strcmp(x->sandbox, y->sandbox);

    return box ? box : x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void on_read(struct thread_job *j, enum work_end end);

static void submit_reading(struct audit_check *x)
{
    struct err e;
    int r = thread_submit(x->control->work, &x->job, NULL, run_reading, on_read, &e);

    if (r < 0)
        end_check(x, r, &e);
}

static void on_read(struct thread_job *j, enum work_end end)
{
    struct audit_check *x = container_of(j, struct audit_check, job);
    struct log_reading *g = &x->reading;
    struct err e;

    if (end_if_over(x, end == THREAD_CANCELLED ? err_set(&e, ERR_BUSY, "the daemon is ending") : 0,
                    &e))
        return;
    if (!g->finished) {
        submit_reading(x);
        return;
    }
    /* Retention removes logs and records one after the other. */
    if (g->missing && g->head.seq &&
        g->head.time_ns <
            clock_wall() - x->control->config->egress.audit_keep + RETENTION_SLACK_NS) {
        next_log(x);
        return;
    }
    if (g->chain.n_findings && g->tries + 1 < TRIES) { /* it may have been rotated */
        struct egress_head_record h = g->head;

        start_log(x, &h, g->tries + 1);
        return;
    }
    collect_log(x);
    next_log(x);
}

static void add_anchors(struct audit_check *x, struct log_reading *g)
{
    size_t n = 0;

    g->anchors = new0_array(x->n_anchors - x->next_anchor + 1, sizeof *g->anchors);
    for (size_t i = x->next_anchor; i < x->n_anchors; i++) {
        const struct ledger_anchor *a = &x->anchors[i];

        if (strcmp(a->sandbox, g->head.sandbox) != 0)
            break;
        g->anchors[n].seq = a->seq;
        memcpy(g->anchors[n++].digest, a->digest, CHAIN_SIZE);
    }
    if (g->head.genuine && g->head.seq && (!n || g->anchors[n - 1].seq <= g->head.seq)) {
        g->anchors[n].seq = g->head.seq;
        memcpy(g->anchors[n++].digest, g->head.digest, CHAIN_SIZE);
    }
    g->chain.n_anchors = n;
}

static void begin_reading(struct audit_check *x)
{
    struct log_reading *g = &x->reading;
    const unsigned char *key = store_ledger_key(x->control->store);

    if (key)
        chain_box_key(key, g->head.sandbox, g->key);
    add_anchors(x, g);
    submit_reading(x);
}

static void on_head_reread(struct store_query *q, int r, const struct err *e)
{
    struct audit_check *x = container_of(q, struct audit_check, query);

    if (end_if_over(x, r, e))
        return;
    if (q->n)
        x->reading.head = q->egress_heads[0];
    begin_reading(x);
}

/* The first read uses the head from the page; later ones query the current head. */
static void start_log(struct audit_check *x, const struct egress_head_record *h, unsigned tries)
{
    struct egress_head_record copy = *h;

    close_log(&x->reading);
    x->reading = (struct log_reading){ .head = copy, .tries = tries, .now = -1, .fd = -1 };
    if (!tries) {
        begin_reading(x);
        return;
    }
    ask_store(x,
              &(struct store_query){ .kind = STORE_EGRESS_HEADS,
                                     .sandbox = str_from(x->reading.head.sandbox),
                                     .limit = 1 },
              on_head_reread);
}

/* Skips the anchors of a log that was read. */
static void skip_anchors(struct audit_check *x, const char *box)
{
    while (x->next_anchor < x->n_anchors && strcmp(x->anchors[x->next_anchor].sandbox, box) == 0)
        x->next_anchor++;
}

/* Reports anchors of sandboxes without a head, up to this sandbox. */
static void pass_anchors(struct audit_check *x, const char *upto)
{
    while (x->next_anchor < x->n_anchors) {
        const struct ledger_anchor *a = &x->anchors[x->next_anchor], *last = a;

        if (upto && strcmp(a->sandbox, upto) >= 0)
            return;
        while (x->next_anchor < x->n_anchors &&
               strcmp(x->anchors[x->next_anchor].sandbox, a->sandbox) == 0)
            last = &x->anchors[x->next_anchor++];
        if (last->time_ns >= x->walk.pruned_ns + RETENTION_SLACK_NS) {
            struct audit_problem *p = add_audit_problem(x, a->sandbox, "head_missing");

            p->seq = (int64_t)last->seq;
            p->time_ns = last->time_ns;
            snprintf(p->message, sizeof p->message,
                     "event %lld names line %llu of its egress log, but its record is missing",
                     (long long)last->event, (unsigned long long)last->seq);
        }
    }
}

static void next_log(struct audit_check *x)
{
    struct err none = { 0 };

    while (x->at_head < x->n_heads) {
        const struct egress_head_record *h = &x->heads[x->at_head++];

        skip_anchors(x, x->current);
        pass_anchors(x, h->sandbox);
        snprintf(x->current, sizeof x->current, "%s", h->sandbox);
        if (h->time_ns >= x->wanted.since_ns) {
            start_log(x, h, 0);
            return;
        }
    }
    if (!x->last_page) {
        query_heads(x);
        return;
    }
    skip_anchors(x, x->current);
    pass_anchors(x, NULL);
    end_check(x, 0, &none);
}

static void on_heads(struct store_query *q, int r, const struct err *e)
{
    struct audit_check *x = container_of(q, struct audit_check, query);

    if (end_if_over(x, r, e))
        return;
    x->n_heads = q->n;
    x->at_head = 0;
    if (q->n) {
        memcpy(x->heads, q->egress_heads, q->n * sizeof x->heads[0]);
        snprintf(x->after, sizeof x->after, "%s", x->heads[q->n - 1].sandbox);
    } else if (x->box[0]) { /* not on record yet, but it may have a log */
        x->n_heads = 1;
        x->heads[0] = (struct egress_head_record){ .time_ns = INT64_MAX };
        snprintf(x->heads[0].sandbox, sizeof x->heads[0].sandbox, "%s", x->box);
    }
    x->last_page = x->box[0] || q->n < HEADS_STEP;
    next_log(x);
}

static void query_heads(struct audit_check *x)
{
    struct store_query q = { .kind = STORE_EGRESS_HEADS, .limit = HEADS_STEP };

    if (x->box[0])
        q.sandbox = str_from(x->box);
    else
        q.text = str_from(x->after);
    ask_store(x, &q, on_heads);
}

/* --- the events --- */

static void query_ledger_events(struct audit_check *x);

static bool keep_anchors(struct audit_check *x, const struct store_query *q)
{
    /* Too many: only the heads are compared. */
    if (x->n_anchors + q->n > ANCHORS_MAX)
        return true;
    if (x->n_anchors + q->n > x->cap_anchors) {
        size_t cap = 2 * (x->n_anchors + q->n);
        struct ledger_anchor *grown = realloc(x->anchors, cap * sizeof *grown);

        if (!grown)
            return false;
        x->anchors = grown;
        x->cap_anchors = cap;
    }
    if (q->n)
        memcpy(x->anchors + x->n_anchors, q->anchors, q->n * sizeof *x->anchors);
    x->n_anchors += q->n;
    return true;
}

static void on_walked(struct store_query *q, int r, const struct err *e)
{
    struct audit_check *x = container_of(q, struct audit_check, query);
    struct err full;

    if (r >= 0 && !keep_anchors(x, q)) {
        r = err_set(&full, ERR_TOO_BIG, "out of memory for the anchors of egress logs");
        e = &full;
    }
    if (end_if_over(x, r, e))
        return;
    if (!x->walk.finished && !x->wanted.head_only) {
        query_ledger_events(x);
        return;
    }
    collect_walk(x);
    if (x->wanted.head_only) {
        end_check(x, 0, e);
        return;
    }
    if (x->n_anchors)
        qsort(x->anchors, x->n_anchors, sizeof *x->anchors, compare_anchors);
    query_heads(x);
}

static void query_ledger_events(struct audit_check *x)
{
    ask_store(x,
              &(struct store_query){ .kind = STORE_LEDGER,
                                     .walk = &x->walk,
                                     .limit = x->wanted.head_only ? 0 : EVENTS_STEP },
              on_walked);
}

/* --- starting --- */

static void on_begin_check(struct loop_later *l)
{
    struct audit_check *x = container_of(l, struct audit_check, later);

    if (end_if_over(x, 0, NULL))
        return;
    if (x->box[0])
        query_heads(x);
    else
        query_ledger_events(x);
}

static int check_audit_share(struct control *c, const struct audit_wanted *w, struct err *e)
{
    unsigned whole = 0, boxes = 0, own = 0;

    LIST_EACH (const struct audit_check, x, &c->audit_checks, link) {
        whole += !x->box[0];
        boxes += x->box[0] != 0;
        own += x->box[0] && w->caller && strcmp(x->caller, w->caller) == 0;
    }
    if (w->box ? boxes < AUDIT_CHECKS_MAX && own < AUDIT_CHECKS_OWNER_MAX
               : whole < AUDIT_CHECKS_WHOLE_MAX)
        return 0;
    return err_set(e, ERR_BUSY, "%u checks of the audit are under way; try again later",
                   w->box ? boxes : whole);
}

int audit_check_start(struct control *c, const struct audit_wanted *w, audit_done_fn *done,
                      void *user, struct audit_check **ret, struct err *e)
{
    struct audit_check *x;
    int r = check_audit_share(c, w, e);

    if (r < 0)
        return r;
    x = new0(sizeof *x);
    x->control = c;
    x->wanted = *w;
    x->walk.since_ns = w->since_ns;
    x->walk.expect = w->expect;
    if (w->box)
        snprintf(x->box, sizeof x->box, "%s", w->box);
    x->done = done;
    x->user = user;
    x->reading.now = x->reading.fd = -1;
    snprintf(x->caller, sizeof x->caller, "%s", w->caller ? w->caller : "");
    list_append(&c->audit_checks, &x->link);
    c->changes++;
    (void)loop_later(c->loop, &x->later, on_begin_check, NULL);
    *ret = x;
    return 0;
}
