/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/review.h"
#include "cli/terminal.h"
#include "cli/unsynced.h"

enum ending {
    ENDING_BRING,   /* bring the changes back, and destroy the sandbox if nothing stays inside */
    ENDING_SELECT,  /* ask about each of them */
    ENDING_LEAVE,   /* keep the sandbox with them */
    ENDING_DISCARD, /* lose them with it */
};

static void on_agent_signal(int sig)
{
}

/* A signal ends a question, and the question alone: the sandbox is kept then. They are blocked but
 * there, so that none is lost, nor one that arrived before. */
static void take_ending_signals(void)
{
    static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction act = { .sa_handler = on_agent_signal };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        sigaction(list[i], &act, NULL);
        sigaddset(&set, list[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* On stdout only where that is a terminal: it may be a file with the output of the agent. */
static int show_changes(const struct agent *a, const struct api_call *c, unsigned long long n,
                        unsigned long long held)
{
    if (!a->o->common.quiet)
        cli_report("%llu change%s in the workspace%s", n, n == 1 ? "" : "s",
                   held ? ", of which some need attention (REASON says why)" : "");
    return isatty(STDOUT_FILENO) == 1 && !a->o->common.quiet
               ? answer_list(c, c->answer, &kind_workspace_change)
               : 0;
}

static enum ending ask_for_ending(const struct agent *a)
{
    char question[PATH_MAX + 64];

    snprintf(question, sizeof question,
             "Bring the changes back to %s? [y]es, [s]elect, [n]o (keep the sandbox), [d]iscard:",
             a->dir);
    for (;;) {
        switch (terminal_choose(question)) {
        case 'y':
            return ENDING_BRING;
        case 's':
            return ENDING_SELECT;
        case 'n':
        case 0:
            return ENDING_LEAVE;
        case 'd':
            if (terminal_confirm("All changes in the sandbox are lost. Discard them?"))
                return ENDING_DISCARD;
        }
    }
}

static enum ending choose_ending(const struct agent *a)
{
    const char *sync = a->o->sync;

    if (sync && strcmp(sync, "auto") == 0)
        return ENDING_BRING;
    if ((sync && strcmp(sync, "never") == 0) || isatty(STDIN_FILENO) != 1)
        return ENDING_LEAVE;
    return ask_for_ending(a);
}

/* Stopped, it needs no memory and does not expire soon. */
static int keep_box(const struct agent *a, int status)
{
    const char *id = a->sandbox;
    int stopped = agent_change_box(a, id, "stop", "stopping the sandbox");

    cli_report("the sandbox %s is kept%s", id, stopped ? "" : ", stopped, with all its files");
    cli_report("continue:          sandboxer agent --resume %s%s", id,
               a->entry ? "" : " -- COMMAND");
    if (a->mounted) {
        cli_report("end:               sandboxer destroy %s", id);
        return status ? status : stopped;
    }
    cli_report("take changes back: sandboxer undo %s   (--list shows the checkpoints)", id);
    cli_report("look at changes:   sandboxer resume %s; sandboxer sync --interactive %s", id, id);
    cli_report("bring back, end:   sandboxer destroy %s   (--discard loses the changes)", id);
    return status ? status : stopped;
}

static int destroy_box(const struct agent *a, bool discard)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, a->verb, &a->o->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s", a->sandbox);
    api_call_query(&c, "sync", discard ? "no" : NULL);
    api_call_query(&c, "unsynced", discard ? "discard" : "refuse");
    c.doing = "destroying the sandbox";
    status = api_call_run(&c);
    if (status)
        unsynced_explain(&c, a->sandbox);
    return status;
}

static int bring_back(const struct agent *a)
{
    AUTO(api_call_done) struct api_call c;
    unsigned long long n, held;
    struct json_writer *w;
    int status;

    api_call_init(&c, a->verb, &a->o->common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/sync", a->sandbox);
    w = api_call_json(&c);
    json_begin_object(w);
    json_end_object(w);
    c.doing = "copying changes back";
    status = api_call_run(&c);
    if (status)
        return status;
    n = review_count(c.answer, &held);
    if (held)
        (void)answer_list(&c, c.answer, &kind_workspace_change);
    if (n > held && !a->o->common.quiet)
        cli_report("%llu change%s brought back to %s", n - held, n - held == 1 ? "" : "s", a->dir);
    return held ? EXIT_CONFLICT : 0;
}

static int select_changes(const struct agent *a, bool *ret_discard)
{
    const struct review r = { a->verb, &a->o->common, a->sandbox };
    unsigned long long left;
    char question[96];
    int status = review_interactively(&r, &left);

    if (status)
        return status;
    snprintf(question, sizeof question, "%llu change%s left in the sandbox. Discard %s?", left,
             left == 1 ? " is" : "s are", left == 1 ? "it" : "them");
    *ret_discard = left && !a->o->keep && terminal_confirm(question);
    return left && !*ret_discard ? EXIT_CONFLICT : 0;
}

/* The changes of a copy go the way that is chosen. */
static int settle_copy(const struct agent *a)
{
    AUTO(api_call_done) struct api_call c;
    unsigned long long n = 0, held = 0;
    enum ending ending = ENDING_BRING;
    bool discard = false;
    int status = review_fetch(&(struct review){ a->verb, &a->o->common, a->sandbox }, &c);

    if (status)
        return keep_box(a, status);
    n = review_count(c.answer, &held);
    if (n) {
        (void)show_changes(a, &c, n, held);
        ending = choose_ending(a);
    }
    discard = ending == ENDING_DISCARD;
    if (ending == ENDING_BRING)
        status = bring_back(a);
    else if (ending == ENDING_SELECT)
        status = select_changes(a, &discard);
    if (status || ending == ENDING_LEAVE || (a->o->keep && !discard))
        return keep_box(a, status);
    status = destroy_box(a, discard);
    return status ? keep_box(a, status) : 0;
}

int agent_settle(struct agent *a)
{
    int status;

    take_ending_signals();
    if (agent_was_undone(a)) {
        cli_report("the agent was ended, because its files went back to a checkpoint");
        return keep_box(a, 0);
    }
    if (!a->mounted)
        return settle_copy(a);
    status = a->o->keep ? 0 : destroy_box(a, true);
    return status || a->o->keep ? keep_box(a, status) : 0;
}
