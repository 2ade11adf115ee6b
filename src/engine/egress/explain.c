/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "engine/egress/chain.h"
#include "engine/egress/fence.h"
#include "engine/egress/learn/learn.h"
#include "lib/json/writer.h"
#include "domain/policy/egress_check.h"
#include "domain/policy/egress_explain.h"
#include "domain/policy/egress_file.h"

enum { OUT_MAX = 64 << 20 };

static const char *const accesses[] = {
    [EGRESS_ACCESS_NONE] = NULL,
    [EGRESS_READ_ONLY] = "read-only",
    [EGRESS_READ_WRITE] = "read-write",
    [EGRESS_FULL] = "full",
};

/* ---- check ---- */

static void write_strings_member(struct json_writer *w, const char *key, struct json_strs list)
{
    if (!list.n)
        return;
    json_field_begin_array(w, key);
    for (size_t i = 0; i < list.n; i++)
        json_put_lossy(w, str_from(list.p[i]));
    json_end_array(w);
}

/* The programs of the endpoint, or else those of the entry. */
static void write_entry_programs(struct json_writer *w, const struct egress_entry *entry,
                                 const struct egress_endpoint *ep)
{
    const struct egress_binary *list = entry->binaries.p;

    if (ep->binaries.n) {
        write_strings_member(w, "binaries", ep->binaries);
        return;
    }
    json_field_begin_array(w, "binaries");
    for (size_t i = 0; i < entry->binaries.n; i++)
        json_put_lossy(w, str_from(list[i].path));
    json_end_array(w);
}

static void write_endpoint_json(struct json_writer *w, const struct egress_entry *entry,
                                const struct egress_endpoint *ep)
{
    json_begin_object(w);
    json_field_text(w, "policy", entry->name ? entry->name : entry->key);
    json_field_optional(w, "name", ep->name);
    json_field_text(w, "host", ep->host ? ep->host : "*");
    if (ep->port_count) {
        json_field_begin_array(w, "ports");
        for (size_t i = 0; i < ep->port_count; i++)
            json_put_uint(w, ep->ports[i]);
        json_end_array(w);
    }
    json_field_text(w, "protocol", egress_protocol_names[ep->protocol]);
    json_field_optional(w, "access", accesses[ep->access]);
    json_field_optional(w, "path", ep->path);
    json_field_text(w, "enforcement", ep->enforcement == EGRESS_AUDIT ? "audit" : "enforce");
    write_entry_programs(w, entry, ep);
    write_strings_member(w, "allowed_ips", ep->allowed_ips);
    json_field_uint(w, "rules", ep->rules.n + ep->deny_rules.n);
    json_end_object(w);
}

static void write_checked_policy(struct json_writer *w, const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;

    json_begin_object(w);
    json_field_bool(w, "valid", true);
    json_field_begin_array(w, "endpoints");
    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *list = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            write_endpoint_json(w, &entries[i], &list[k]);
    }
    json_end_array(w);
    write_strings_member(w, "notes", p->notes);
    json_end_object(w);
}

static void add_note(struct json_strs *notes, const char *text, struct arena *a)
{
    const char **p = arena_array(a, notes->n + 1, sizeof *p);

    if (!p)
        return;
    if (notes->n)
        memcpy(p, notes->p, notes->n * sizeof *p);
    p[notes->n] = text;
    *notes = (struct json_strs){ p, notes->n + 1 };
}

int explain_check(struct str yaml, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_policy policy;
    struct json_writer w;
    struct err why = { 0 };

    json_writer_init(&w, out, JSON_COMPACT);
    if (egress_policy_read(yaml, &arena, &policy, &why) >= 0)
        s = egress_compile(&policy, 1, &why);
    if (s) {
        if (egress_check_times(&policy, clock_wall(), &why) < 0)
            add_note(&policy.notes, why.msg, &arena);
        write_checked_policy(&w, &policy);
    } else {
        json_begin_object(&w);
        json_field_bool(&w, "valid", false);
        json_field_text(&w, "problem", why.msg);
        json_end_object(&w);
    }
    return json_writer_finish(&w, e);
}

/* ---- explain ---- */

int explain_destination(struct str yaml, const struct egress_options *o, struct buf *out,
                        struct err *e)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    const struct egress_question question = { .to = o->to,
                                              .method = o->method,
                                              .path = o->path,
                                              .upgrade = o->upgrade,
                                              .binary = o->binary };
    struct egress_explanation x;
    struct egress_explain_input trial = { 0 };
    struct egress_policy policy;
    struct json_writer w;
    int r = egress_policy_read(yaml, &arena, &policy, e);

    if (r < 0)
        return r;
    s = egress_compile(&policy, 1, e);
    if (!s)
        return -(int)(e->code ? e->code : ERR_BUG);
    r = egress_explain_read(&question, &trial, e);
    if (r < 0)
        return err_wrap(e, r, "--to");
    egress_snapshot_expire(s, clock_wall());
    egress_explain(s, &trial, &x);
    json_writer_init(&w, out, JSON_COMPACT);
    egress_explain_json(&x, &w);
    return json_writer_finish(&w, e);
}

/* ---- verifying the chain of a log ---- */

static void write_log_findings(struct json_writer *w, const struct chain_reader *c)
{
    char text[192];

    json_field_begin_array(w, "problems");
    for (size_t i = 0; i < c->n_findings && i < CHAIN_FINDINGS_MAX; i++) {
        const struct chain_finding *f = &c->findings[i];

        chain_explain(f, text, sizeof text);
        json_begin_object(w);
        json_field_str(w, "chain", STR("file"));
        json_field_cstr(w, "kind", chain_fault_names[f->fault]);
        json_field_uint(w, "seq", f->seq);
        json_field_uint(w, "line", f->line);
        json_field_cstr(w, "message", text);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_log_summary(struct json_writer *w, const struct chain_reader *c)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = { { "lines", c->lines },
                    { "unchained_lines", c->unchained },
                    { "partial_bytes", c->partial },
                    { "begins", c->begins },
                    { "first_line", c->begins ? c->first_before.seq + 1 : 0 },
                    { "last_line", c->last.seq },
                    { "problem_count", c->n_findings } };

    json_begin_object(w);
    json_field_bool(w, "intact", c->n_findings == 0);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        json_field_uint(w, numbers[i].key, numbers[i].value);
    write_log_findings(w, c);
    json_end_object(w);
}

int explain_verify_log(int fd, struct buf *out, struct err *e)
{
    enum { PIECE = 64 << 10 };
    AUTO(chain_reader_done) struct chain_reader c = { .open_begin = true };
    static char piece[PIECE];
    struct json_writer w;
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading the log");
        if (n > 0)
            chain_read_text(&c, (struct str){ piece, (size_t)n });
    }
    chain_end_file(&c);
    chain_end(&c);
    json_writer_init(&w, out, JSON_COMPACT);
    write_log_summary(&w, &c);
    return json_writer_finish(&w, e);
}

/* ---- reading the input ---- */

static int read_policy_input(const char *path, struct buf *out, struct err *e)
{
    AUTO_CLOSE int fd = str_eq(str_from(path), STR("-"))
                            ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return err_sys(e, "%s", path);
    return err_wrap(e, buf_read_fd(out, fd, e), "%s", path);
}

/* Tenants' programs choose much of what is in a log. */
static int read_log(const struct egress_options *o, struct buf *out, struct err *e)
{
    int r = fence_enter_reader(e);

    if (r < 0)
        return r;
    return o->learn ? learn_run(STDIN_FILENO, out, e) : explain_verify_log(STDIN_FILENO, out, e);
}

int explain_run(const struct egress_options *o, struct err *e)
{
    AUTO(buf_done) struct buf yaml = BUF_INIT(EGRESS_FILE_BYTES_MAX);
    AUTO(buf_done) struct buf out = BUF_INIT(OUT_MAX);
    const char *file = o->check ? o->check : o->explain;
    int r;

    if (file)
        r = read_policy_input(file, &yaml, e);
    else
        r = read_log(o, &out, e);
    if (r >= 0 && file)
        r = o->check ? explain_check(buf_str(&yaml), &out, e)
                     : explain_destination(buf_str(&yaml), o, &out, e);
    if (r < 0)
        return r;
    printf(STR_FMT "\n", STR_ARG(buf_str(&out)));
    return fflush(stdout) == 0 ? 0 : err_sys(e, "writing to stdout");
}
