/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "cli/body.h"
#include "cli/show.h"
#include "cli/ssh_key.h"
#include "cli/ssh_settings.h"
#include "cli/tunnel.h"
#include "cli/verbs/verbs.h"
#include "domain/model/command.h"
#include "domain/model/request.h"

#define PROTOCOL "sandboxer-ssh" /* edge/rest/ssh.c */

/* The command, for the process that ssh starts as its ProxyCommand. */
#define COMMAND_VARIABLE "SANDBOXER_SSH_COMMAND"

enum { KEY_LINE_MAX = 4096, COMMAND_MAX = 1 << 20, SETTINGS_MAX = 32 };

struct ssh_options {
    struct common common;
    const char *user;
    struct option_list forwards;
    bool agent, tty, stdio, host_key;
};

#define AT(member) .at = offsetof(struct ssh_options, member)

static const struct option_spec options[] = {
    { "user", 'u', "USER", "name or number inside (default: the profile's)", AT(user) },
    { "forward", 'L', "[ADDRESS:]PORT:HOST:PORT",
      "listen here and connect from inside the sandbox; can be repeated", .kind = OPTION_LIST,
      AT(forwards) },
    { "agent", 'A', NULL, "let the sandbox use your agent's keys while you are connected",
      AT(agent) },
    { "tty", 't', NULL, "a terminal for the command, too", AT(tty) },
    { "stdio", 0, NULL, "speak SSH on stdin and stdout, for ssh's ProxyCommand", AT(stdio) },
    { "host-key", 0, NULL, "print the sandbox's key, for ssh's KnownHostsCommand", AT(host_key) },
};

/* --- the sandbox's host key --- */

/* Also checks that the sandbox exists. */
static int find_host_key(struct api_call *c, const char *id, bool print)
{
    struct str key;
    int status;

    api_call_path(c, "/v1/sandboxes/%s/ssh", id);
    status = api_call_run(c);
    if (status || !print)
        return status;
    key = show_string(c->answer, "host_key");
    if (!key.p)
        return EXIT_TOOL_FAILED;
    printf("* " STR_FMT "\n",
           STR_ARG(key)); /* any name will do: this is the key that was requested */
    return fflush(stdout) == 0 ? 0 : EXIT_TOOL_FAILED;
}

/* --- the command, for the record --- */

/* With U+FFFD for bytes outside UTF-8; false: without what is beyond the limit of a request. */
static bool add_requested(struct buf *b, struct str text)
{
    while (text.n) {
        size_t good = str_utf8_prefix(text), room = b->max - b->n;

        if (good > room) {
            (void)buf_add(b, (struct str){ text.p, str_utf8_prefix((struct str){ text.p, room }) });
            return false;
        }
        (void)buf_add(b, (struct str){ text.p, good });
        if (good == text.n)
            return true;
        if (buf_add(b, STR("\xEF\xBF\xBD")) < 0)
            return false;
        text = (struct str){ text.p + good + 1, text.n - good - 1 };
    }
    return true;
}

/* As ssh itself sends the words: with spaces between them. */
static int note_requested(char *const *command, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(COMMAND_REQUESTED_MAX);

    for (char *const *word = command; *word; word++)
        if ((word != command && !add_requested(&text, STR(" "))) ||
            !add_requested(&text, str_from(*word)))
            break;
    return (text.n ? setenv(COMMAND_VARIABLE, text.p, 1) : unsetenv(COMMAND_VARIABLE)) < 0
               ? err_sys(e, "setting " COMMAND_VARIABLE)
               : 0;
}

/* NULL: none, or a text that only another program can have put there. */
static const char *find_requested(void)
{
    const char *text = getenv(COMMAND_VARIABLE);
    size_t n = text ? strlen(text) : 0;

    return n && n <= COMMAND_REQUESTED_MAX && str_is_utf8((struct str){ text, n }) ? text : NULL;
}

/* --- one connection on stdin and stdout --- */

static int connect_ssh_stdio(const struct verb *v, const struct ssh_options *o, const char *id)
{
    AUTO(buf_done) struct buf key = BUF_INIT(KEY_LINE_MAX);
    struct json_writer *w;
    struct tunnel t;
    struct err e;
    int status;

    if (ssh_key_public(&key, &e) < 0)
        return verb_failed(v, "%s", e.msg);
    signal(SIGPIPE, SIG_IGN);
    api_call_init(&t.call, v, &o->common, "POST");
    api_call_path(&t.call, "/v1/sandboxes/%s/ssh", id);
    w = api_call_json(&t.call);
    json_begin_object(w);
    body_text(w, "public_key", key.p);
    body_text(w, "user", o->user && strcmp(o->user, SSH_USUAL_USER) != 0 ? o->user : NULL);
    body_flag(w, "agent", o->agent);
    body_text(w, "command", find_requested());
    json_end_object(w);
    status = tunnel_upgrade(&t, PROTOCOL);
    if (!status)
        tunnel_relay(&t, STDIN_FILENO, STDOUT_FILENO);
    tunnel_done(&t);
    return status;
}

/* --- ssh itself --- */

struct words {
    char *list[2 * SETTINGS_MAX + 2 * OPTION_LIST_MAX + 16];
    size_t n;
    struct arena arena;
};

static void add_ssh_word(struct words *w, const char *word)
{
    char *copy = arena_dup(&w->arena, str_from(word));

    if (!copy || w->n + 1 >= COUNT_OF(w->list))
        abort(); /* settings are few, and options limited */
    w->list[w->n++] = copy;
}

static void add_ssh_setting(void *user, const char *name, const char *value)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4 * PATH_MAX);

    if (buf_addf(&text, "%s=%s", name, value) < 0)
        abort();
    add_ssh_word(user, "-o");
    add_ssh_word(user, text.p);
}

static int exec_ssh(const struct verb *v, const struct ssh_options *o, const char *id,
                    char **command)
{
    static struct words w = { .arena = ARENA_INIT(COMMAND_MAX) };
    char key[PATH_MAX];
    const struct ssh_settings s = {
        .key = key, .server = o->common.server, .user = o->user, .agent = o->agent
    };
    struct err e;

    if (ssh_key_ensure(key, sizeof key, &e) < 0 || note_requested(command, &e) < 0)
        return verb_failed(v, "%s", e.msg);
    add_ssh_word(&w, "ssh");
    add_ssh_word(&w, "-F");
    add_ssh_word(&w, "none");
    if (ssh_settings_each(&s, add_ssh_setting, &w, &e) < 0)
        return verb_failed(v, "%s", e.msg);
    for (size_t i = 0; i < o->forwards.n; i++) {
        add_ssh_word(&w, "-L");
        add_ssh_word(&w, o->forwards.p[i]);
    }
    if (o->tty)
        add_ssh_word(&w, "-t");
    add_ssh_word(&w, "--");
    add_ssh_word(&w, id);
    for (; *command; command++)
        add_ssh_word(&w, *command);
    execvp(w.list[0], w.list);
    return verb_failed(v, "starting ssh (Debian: openssh-client): %s", strerror(errno));
}

/* --- the beginning --- */

/* "sbx-4k7" is the host name of sbx_4k7. Other texts than ids and names of sandboxes are rejected,
 * because ssh could take them for an option. */
static bool find_ssh_sandbox(const char *name, char *out, size_t cap)
{
    bool host = strncmp(name, "sbx-", 4) == 0;
    const char *rest = host ? name + 4 : name;

    if (host && strncmp(rest, "sbx_", 4) == 0)
        host = false;
    if (strspn(rest, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(rest) || !rest[0] ||
        strchr("._-", rest[0]))
        return false;
    return snprintf(out, cap, "%s%s", host ? "sbx_" : "", rest) < (int)cap;
}

static int run_ssh(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct ssh_options *o = options_;
    char id[SANDBOX_NAME_MAX];
    int status;

    if (!find_ssh_sandbox(argv[0], id, sizeof id))
        return verb_misused(c->verb, "'%.80s' is not the id or name of a sandbox", argv[0]);
    argv += argv[1] && strcmp(argv[1], "--") == 0 ? 2 : 1;
    if ((o->stdio || o->host_key) && argv[0])
        return verb_misused(c->verb, "--stdio and --host-key take no command, but '%s' follows",
                            argv[0]);
    if (o->stdio)
        return connect_ssh_stdio(c->verb, o, id);
    status = find_host_key(c, id, o->host_key);
    return status || o->host_key ? status : exec_ssh(c->verb, o, id, argv);
}

const struct verb verb_ssh = {
    .name = "ssh",
    ARGUMENTS("ID [--] [COMMAND [ARGUMENT…]]", 1, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "log in to a sandbox with OpenSSH",
    .text = "Starts ssh here and, for this connection, the host's sshd inside: the sandbox needs\n"
            "no server, and no port is opened. Your key is made on first use; the sandbox's host\n"
            "key is checked. COMMAND is run by a shell, as with ssh. When the connection closes,\n"
            "everything started over it is ended.\n"
            "\n"
            "Exit status: the command's own; 255 if ssh failed; 125 if sandboxer did.\n"
            "\n"
            "  sandboxer ssh sbx_4k7\n"
            "  sandboxer ssh sbx_4k7 -- 'cd src && make'\n"
            "  sandboxer ssh -L 8080:localhost:80 sbx_4k7\n"
            "  sandboxer ssh-config >> ~/.ssh/config && scp notes sbx_4k7:\n",
    OPTIONS(options, struct ssh_options),
    .run = run_ssh,
    .flags = VERB_REMOTE | VERB_COMMAND,
};
