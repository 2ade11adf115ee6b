/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the attack suite on this machine: the program that tries to get out of a sandbox, in
 * sandboxes built in the ways that people use. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/run/attack_bait.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"
#include "lib/proc/spawn.h"

enum { WAY_ARGS_MAX = 128, OUTPUT_MAX = 1 << 20, DOCUMENT_MAX = 1 << 20, WAY_FLAGS_MAX = 8 };

struct selftest_options {
    struct common common;
    bool attacks, daemon, verbose;
};

#define AT(member) .at = offsetof(struct selftest_options, member)

static const struct option_spec options[] = {
    { "attacks", 'a', NULL, "run the attack suite; without it, the canary alone", AT(attacks) },
    { "daemon", 'd', NULL, "attack in a sandbox of the daemon as well", AT(daemon) },
    { "verbose", 'v', NULL, "print every attack", AT(verbose) },
};

/* How a sandbox is built around the attacks. */
static const struct attack_setup {
    const char *name;
    const char *flags[WAY_FLAGS_MAX]; /* of `run`, ended by NULL */
    bool served;                      /* by the daemon */
    bool apart;                       /* the host's files have inodes of the sandbox's own */
} ways[] = {
    { "root inside", { NULL }, false, false },
    { "user inside", { "--user", "1000" }, false, false },
    { "small limits", { "--memory", "256M", "--pids", "64", "--disk", "16M" }, false, false },
    { "strict table", { "--kernel", "strict" }, false, false },
    { "guarded", { "--system", "apart", "--side-channels", "guarded" }, false, true },
    { "daemon", { NULL }, true, false },
};

/* The result of one setup. */
struct attack_result {
    const struct attack_setup *way;
    unsigned attacks, through, skipped;
    bool complete; /* the suite ran to its end */
};

struct argument_list {
    const char *p[WAY_ARGS_MAX];
    size_t n;
};

/* Adds words up to a NULL. */
static void add_arguments(struct argument_list *a, const char *const *words)
{
    for (; *words && a->n + 1 < WAY_ARGS_MAX; words++)
        a->p[a->n++] = *words;
    a->p[a->n] = NULL;
}
#define ADD(list, ...) add_arguments(list, (const char *const[]){ __VA_ARGS__, NULL })

/* Runs this program with these arguments and collects its stdout; its stderr stays visible. The
 * exit status, or -1. */
static int run_self(const struct argument_list *a, struct buf *out)
{
    char piece[4096];
    int pair[2], status = -1;
    ssize_t n;
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        union {
            const char *const *read_only;
            char *const *as_exec_has_it;
        } argv = { a->p };

        dup2(pair[1], STDOUT_FILENO);
        execv("/proc/self/exe", argv.as_exec_has_it);
        _exit(127);
    }
    close(pair[1]);
    while (pid > 0 && ((n = read(pair[0], piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            buf_add(out, (struct str){ piece, (size_t)n }); /* more than it takes is not TAP */
    close(pair[0]);
    if (pid < 0 || spawn_wait(pid, &status, NULL) < 0 || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static void add_facts(struct argument_list *a, const struct attack_setup *w,
                      const struct attack_bait *b)
{
    for (size_t i = 0; i < b->n_facts; i++)
        ADD(a, "--env", b->facts[i]);
    if (w->apart && b->system_files[0])
        ADD(a, "--env", b->system_files);
}

/* --- the ways in --- */

static void attack_embedded(const struct attack_setup *w, const struct attack_bait *b,
                            struct buf *out)
{
    struct argument_list a = { .n = 0 };
    char mount[96];

    snprintf(mount, sizeof mount, "%s:/attacks", b->dir);
    ADD(&a, "sandboxer", "run", "-q", "--mount", mount, "--env",
        "ESCAPE_READ_ONLY=/attacks/victim");
    add_arguments(&a, w->flags);
    add_facts(&a, w, b);
    ADD(&a, "--", "/attacks/attacks");
    (void)run_self(&a, out); /* the TAP output has the result */
}

static void start_remote(struct argument_list *a, const struct selftest_options *o,
                         const char *verb)
{
    ADD(a, "sandboxer", verb);
    if (o->common.server)
        ADD(a, "--server", o->common.server);
}

static bool create_sandbox(const struct selftest_options *o, char id[static 64])
{
    struct argument_list a = { .n = 0 };
    AUTO(buf_done) struct buf out = BUF_INIT(4096);
    struct str line;

    start_remote(&a, o, "create");
    ADD(&a, "-q");
    if (run_self(&a, &out) != 0)
        return false;
    (void)str_cut(buf_str(&out), '\n', &line);
    str_copy(line, id, 64);
    return id[0] != '\0';
}

static void attack_served(const struct selftest_options *o, const struct attack_setup *w,
                          const struct attack_bait *b, struct buf *out)
{
    struct argument_list copy = { .n = 0 }, attack = { .n = 0 }, destroy = { .n = 0 };
    AUTO(buf_done) struct buf ignored = BUF_INIT(4096);
    char id[64], from[96], to[96];

    if (!create_sandbox(o, id))
        return;
    snprintf(from, sizeof from, "%s/attacks", b->dir);
    snprintf(to, sizeof to, "%s:/tmp/attacks", id);
    start_remote(&copy, o, "cp");
    ADD(&copy, from, to);
    if (run_self(&copy, &ignored) == 0) {
        start_remote(&attack, o, "exec");
        add_facts(&attack, w, b);
        ADD(&attack, id, "--", "/tmp/attacks");
        (void)run_self(&attack, out);
    }
    start_remote(&destroy, o, "destroy");
    ADD(&destroy, id);
    (void)run_self(&destroy, &ignored); /* the child prints its own errors */
}

/* --- what came of them --- */

static void write_attack(struct json_writer *w, const struct attack_setup *way, struct str line,
                         const char *result)
{
    struct str number;

    line = str_cut(line, '-', &number); /* "not ok 12 - NAME: …" */
    json_begin_object(w);
    body_text(w, "way", way->name);
    body_text(w, "result", result);
    json_field_lossy(w, "attack", line.n > 1 ? (struct str){ line.p + 1, line.n - 1 } : line);
    json_end_object(w);
}

/* Reads the suite's TAP output; an attack becomes a row if rows are requested, or if it got
 * through. */
static void count_attacks(struct attack_result *o, struct str text, bool every,
                          struct json_writer *w)
{
    struct str line;

    while (text.n) {
        bool bad, skipped;

        text = str_cut(text, '\n', &line);
        bad = str_starts(line, STR("not ok "));
        skipped = memmem(line.p, line.n, "# SKIP", 6) != NULL;
        o->complete |= str_starts(line, STR("1.."));
        if (!bad && !str_starts(line, STR("ok ")))
            continue;
        o->attacks++;
        o->through += bad;
        o->skipped += skipped;
        if (bad || every)
            write_attack(w, o->way, line, bad ? "through" : skipped ? "not applicable" : "held");
    }
}

static void write_attack_result(struct json_writer *w, const struct attack_result *o)
{
    json_begin_object(w);
    body_text(w, "way", o->way->name);
    body_text(w, "state", !o->complete || o->through ? "fail" : "ok");
    json_field_uint(w, "attacks", o->attacks);
    json_field_uint(w, "held", o->attacks - o->through - o->skipped);
    json_field_uint(w, "not_applicable", o->skipped);
    json_field_uint(w, "through", o->through);
    body_text(w, "note", o->complete ? NULL : "the suite did not run to its end");
    json_end_object(w);
}

static const struct column columns[] = {
    COLUMN("", "state", .state = true),
    COLUMN("WAY", "way"),
    COLUMN("ATTACKS", "attacks"),
    COLUMN("HELD", "held"),
    COLUMN("THROUGH", "through"),
    COLUMN("NOT APPLICABLE", "not_applicable"),
    COLUMN("NOTE", "note"),
};
static const struct answer_kind kind = KIND("ways", "way", columns);

static const struct column attack_columns[] = {
    COLUMN("RESULT", "result"),
    COLUMN("WAY", "way"),
    COLUMN("ATTACK", "attack"),
};
static const struct answer_kind attack_kind = KIND("attacks", "attack", attack_columns);

/* Runs every way: how many of them failed. */
static int attack_every_way(const struct selftest_options *o, const struct attack_bait *b,
                            struct json_writer *w)
{
    struct attack_result outcomes[COUNT_OF(ways)];
    size_t n = 0;
    int failures = 0;

    json_begin_object(w);
    json_field_begin_array(w, "attacks");
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        AUTO(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

        if (ways[i].served && !o->daemon)
            continue;
        outcomes[n] = (struct attack_result){ .way = &ways[i] };
        if (ways[i].served)
            attack_served(o, &ways[i], b, &out);
        else
            attack_embedded(&ways[i], b, &out);
        count_attacks(&outcomes[n], buf_str(&out), o->verbose, w);
        failures += !outcomes[n].complete || outcomes[n].through > 0;
        n++;
    }
    json_end_array(w);
    json_field_begin_array(w, "ways");
    for (size_t i = 0; i < n; i++)
        write_attack_result(w, &outcomes[i]);
    json_end_array(w);
    json_end_object(w);
    return failures;
}

static int show_selftest(struct api_call *c, const struct selftest_options *o, struct str text,
                         int failures)
{
    struct err e;
    int status;

    if (api_call_read_json(c, text, &c->answer, &e) < 0)
        return api_call_failed(c, &e);
    if (common_format(&o->common) == FORMAT_TEXT && !o->common.quiet &&
        (o->verbose || failures > 0)) {
        status = answer_list(c, c->answer, &attack_kind);
        if (status)
            return status;
    }
    status = answer_list(c, c->answer, &kind);
    return status ? status : failures ? EXIT_REPORTED : 0;
}

static int run_attacks(struct api_call *c, const struct selftest_options *o)
{
    AUTO(buf_done) struct buf text = BUF_INIT(DOCUMENT_MAX);
    AUTO(attack_bait_remove) struct attack_bait bait = ATTACK_BAIT_NONE;
    struct json_writer w;
    char program[4096];
    struct err e;
    int failures;

    if (spawn_find("sandboxer-attacks", program, sizeof program, &e) < 0 ||
        attack_bait_lay(&bait, program, &e) < 0)
        return api_call_failed(c, &e);
    json_writer_init(&w, &text, JSON_COMPACT);
    failures = attack_every_way(o, &bait, &w);
    if (!attack_bait_unharmed(&bait)) {
        cli_report("selftest: a file outside the sandbox was changed through a read-only mount");
        failures++;
    }
    if (json_writer_finish(&w, &e) < 0)
        return api_call_failed(c, &e);
    return show_selftest(c, o, buf_str(&text), failures);
}

static int run_selftest(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct selftest_options *o = options_;

    if (o->attacks)
        return run_attacks(c, o);
    if (o->daemon || o->verbose)
        return verb_misused(c->verb, "--daemon and --verbose belong to --attacks");
    execl("/proc/self/exe", "sandboxer", "canary", (char *)NULL);
    return verb_failed(c->verb, "cannot run the canary: %s", strerror(errno));
}

const struct verb verb_selftest = {
    .name = "selftest",
    .summary = "test the isolation of this installation",
    .text = "With --attacks, runs a program that tries to leave its sandbox in about three\n"
            "hundred ways, in a sandbox built for root, for another user, with small limits,\n"
            "with the strict table of system calls and with side channels closed, and with\n"
            "--daemon in one of the daemon's. The attacks are harmless to the host even\n"
            "where they succeed. An attack is not applicable where the machine lacks what it\n"
            "aims at. Exit status 1 if an attack got through or the suite did not run to its\n"
            "end.\n"
            "\n"
            "  sandboxer selftest\n"
            "  sandboxer selftest --attacks --daemon\n"
            "  sandboxer selftest --attacks -v -o json | jq '.attacks[] | select(.result == "
            "\"through\")'\n",
    OPTIONS(options, struct selftest_options),
    .run = run_selftest,
    .flags = VERB_ASKS,
};
