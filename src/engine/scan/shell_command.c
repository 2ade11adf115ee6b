/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of shell text: their words, as acts that rules are compared with. */
#include "engine/scan/shell.h"

#include <string.h>

#include "base/own.h"

/* Words that only say how, or where, the command behind them runs. */
static const char prefixes[] =
    "sudo|doas|env|nohup|time|exec|command|builtin|nice|ionice|timeout|xargs|busybox|"
    "setsid|stdbuf|then|do|else|elif|if|while|until|!|{|}|coproc|chroot|unshare|fakeroot";

struct str shell_base_name(struct str path)
{
    size_t from = path.n;

    while (from && path.p[from - 1] != '/')
        from--;
    return from < path.n ? (struct str){ path.p + from, path.n - from } : path;
}

static bool is_assignment(struct str w, struct str *ret_name, struct str *ret_value)
{
    size_t i = 0;

    while (i < w.n && shell_is_name_char(w.p[i]))
        i++;
    if (!i || i >= w.n || w.p[i] != '=' || (w.p[0] >= '0' && w.p[0] <= '9'))
        return false;
    *ret_name = (struct str){ w.p, i };
    *ret_value = (struct str){ w.p + i + 1, w.n - i - 1 };
    return true;
}

bool shell_is_option_or_number(struct str w)
{
    return w.n && (w.p[0] == '-' || (w.p[0] >= '0' && w.p[0] <= '9'));
}

size_t shell_find_name(struct shell *sh, const struct shell_command *c)
{
    struct str name, value;
    bool behind = false;
    size_t i = 0;

    for (; i < c->n; i++) {
        struct str w = shell_text(sh, &c->words[i]);

        if (is_assignment(w, &name, &value))
            shell_assign(sh, name, value, c->words[i].in);
        else if (scan_like(prefixes, shell_base_name(w)))
            behind = true;
        else if (!behind || !shell_is_option_or_number(w))
            break;
    }
    if (i == c->n && i && str_eq(shell_text(sh, &c->words[i - 1]), STR("env")))
        i--; /* alone it prints the environment */
    return i;
}

static void add_letters(struct act *a, struct str w)
{
    static const struct {
        const char *option;
        char letter;
    } longs[] = { { "--recursive", 'r' }, { "--force", 'f' },       { "--decode", 'd' },
                  { "--exec*", 'e' },     { "--listen", 'l' },      { "--data*", 'd' },
                  { "--form*", 'F' },     { "--upload-file*", 'T' } };

    if (w.n < 2 || w.p[0] != '-')
        return;
    for (size_t i = 0; i < COUNT_OF(longs) && w.p[1] == '-'; i++)
        if (scan_like(longs[i].option, w))
            a->letters |= UINT64_C(1) << (longs[i].letter & 63);
    for (size_t i = 1; i < w.n && i < 12 && w.p[1] != '-'; i++)
        if (shell_is_name_char(w.p[i]))
            a->letters |= UINT64_C(1) << (w.p[i] & 63);
}

/* The flows of the contents of a file that the word names: x, @x, f=@x. */
static flows carried_by(const struct shell *sh, struct str w)
{
    flows in = scan_carried(sh->s, w);

    for (size_t i = 0; i < w.n && i < 64; i++)
        if (w.p[i] == '@' || w.p[i] == '=')
            in |= scan_carried(sh->s, (struct str){ w.p + i + 1, w.n - i - 1 });
    return in;
}

/* Records the output of a command for the files that it names. */
static void remember_files(struct shell *sh, const struct act *a, const struct shell_command *c,
                           flows out)
{
    static const char writers[] =
        "curl|wget|fetch|tar|zip|cp|mv|gzip|openssl|gpg|base64|tee|7z|xz|dd|aria2c";

    if (c->target[0])
        scan_carry(sh->s, str_from(c->target), out);
    if (!out || !scan_like(writers, a->name))
        return;
    for (size_t i = 0; i < a->n; i++) {
        struct str w = a->args[i];

        if (str_starts(w, STR("of=")))
            w = (struct str){ w.p + 3, w.n - 3 };
        if (w.n && w.p[0] != '-' && !memchr(w.p, ':', w.n))
            scan_carry(sh->s, w, out);
        if (scan_like("*://*/*", w)) /* the name that a download gets by itself */
            scan_carry(sh->s, shell_base_name(w), out);
    }
}

/* Code in words: sh -c TEXT, eval WORDS, python3 -c TEXT, and a name that holds a whole command. */
static flows run_text(struct shell *sh, const struct act *a, const struct shell_word *name)
{
    enum scan_language language = scan_interpreter(a->name);
    struct str text = { 0 };
    AUTO(buf_done) struct buf copy = BUF_INIT(64 << 10);

    if (str_eq(a->name, STR("eval")) || str_eq(a->name, STR("ssh")) ||
        str_eq(a->name, STR("trap"))) {
        language = SCAN_SHELL;
        for (size_t i = 0; i < a->n; i++)
            if (buf_add(&copy, a->args[i]) < 0 || buf_add_c(&copy, ' ') < 0)
                break;
        text = buf_str(&copy);
    } else if (language != SCAN_UNKNOWN) {
        for (size_t i = 0; i + 1 < a->n && !text.p; i++)
            if (scan_like("-c|-e|-*c|-p|--eval", a->args[i]))
                text = a->args[i + 1];
    } else if (!name->quoted && memchr(a->name.p, ' ', a->name.n)) {
        language = SCAN_SHELL;
        text = a->name;
    }
    if (text.p && text.n && text.p != copy.p) {
        if (buf_add(&copy, text) < 0) /* words may move while it is read */
            return 0;
        text = buf_str(&copy);
    }
    return text.n && sh->depth < SCAN_DEPTH_MAX ? scan_nested(sh->s, language, text, a->at) : 0;
}

static void judge_command_name(struct shell *sh, struct act *a, const struct shell_word *w)
{
    if (w->pieces >= 3 && w->pieces < 1u << 16)
        scan_add_special(sh->s, SPECIAL_PIECES, a->at);
    if (w->expanded || scan_carried(sh->s, shell_text(sh, w))) {
        flows in = w->in | scan_carried(sh->s, shell_text(sh, w));
        const struct act run = { .name = STR("(run)"), .at = a->at, .in = in };

        scan_act(sh->s, &run);
    }
}

void shell_judge_target(struct shell *sh, const struct shell_command *c, flows in, bool endless)
{
    const struct str target = str_from(c->target);
    const struct act out = {
        .name = STR(">"), .args = &target, .n = 1, .at = c->at, .in = in, .endless = endless
    };

    if (c->target[0])
        scan_act(sh->s, &out);
}

/* f() { f | f & }: the second of the two. */
static void note_bomb(struct shell *sh, struct shell_command *c, struct str name)
{
    if (sh->function[0] && str_eq(name, str_from(sh->function)) &&
        str_eq(name, str_from(c->before)))
        scan_add_special(sh->s, SPECIAL_FORK_BOMB, c->at);
    if (!str_copy(name, c->before, sizeof c->before))
        c->before[0] = '\0';
}

static void note_loop_words(struct shell *sh, const struct shell_command *c)
{
    struct str first = c->n ? shell_text(sh, &c->words[0]) : STR("");
    struct str second = c->n > 1 ? shell_text(sh, &c->words[1]) : STR("");

    if (scan_like("while|until|for", first)) {
        bool endless = (str_eq(first, STR("while")) && scan_like("true|:|1|[|/bin/true", second) &&
                        (second.p[0] != '[' || c->n <= 4)) ||
                       (str_eq(first, STR("until")) && str_eq(second, STR("false")));

        if (sh->loops || endless) {
            sh->loops += endless && !sh->loops;
            sh->inner++;
        }
        if (sh->inner == 1)
            sh->calm = false;
    } else if (str_eq(first, STR("done")) && sh->inner && !--sh->inner) {
        sh->loops = 0;
        scan_loop_end(sh->s, sh->calm);
    }
}

static bool has_pieces_of_ifs(const struct shell_command *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->words[i].pieces >= 1u << 16 && !c->words[i].quoted)
            return true;
    return false;
}

static void assign_heredocs(struct shell *sh, enum scan_language language)
{
    for (size_t i = 0; i < sh->n_heredocs; i++) {
        if (!sh->heredocs[i].ours)
            sh->heredocs[i].language = language;
        sh->heredocs[i].ours = true;
    }
}

/* dd without a count, from an endless file, has its own name in the rules. */
static void judge_dd(struct shell *sh, const struct act *a)
{
    const struct act endless = { .name = STR("dd-endless"), .at = a->at };
    bool source = false, file = false, count = false;

    for (size_t i = 0; i < a->n; i++) {
        source |= scan_like("if=/dev/zero|if=/dev/urandom|if=/dev/random", a->args[i]);
        file |= scan_like("of=*", a->args[i]) && !scan_like("of=/dev/*", a->args[i]);
        count |= scan_like("count=*", a->args[i]);
    }
    if (source && file && !count && str_eq(a->name, STR("dd")))
        scan_act(sh->s, &endless);
}

/* Judges the words behind the name, in as many acts as necessary; returns the flows of their
 * output. */
static flows judge_words(struct shell *sh, struct shell_command *c, size_t name)
{
    struct str args[SCAN_ARGS_MAX];
    struct act a = { .name = shell_base_name(shell_text(sh, &c->words[name])),
                     .args = args,
                     .at = c->at,
                     .in = c->in,
                     .endless = sh->loops };
    bool group = scan_like("}|done|fi|esac", a.name);
    flows out;

    for (size_t i = name + 1; i < c->n; i++) {
        args[a.n++] = shell_text(sh, &c->words[i]);
        a.in |= c->words[i].in | carried_by(sh, a.args[a.n - 1]);
        add_letters(&a, a.args[a.n - 1]);
    }
    if (scan_like("export|local|readonly|declare|typeset", a.name))
        for (size_t i = 0; i < a.n; i++) {
            struct str n, v;

            if (is_assignment(a.args[i], &n, &v))
                shell_assign(sh, n, v, c->words[name + 1 + i].in);
        }
    if (scan_like("sleep|wait|read|break|exit|return|inotifywait|select|nc|tail|poll", a.name))
        sh->calm = true;
    note_bomb(sh, c, a.name);
    if (has_pieces_of_ifs(c))
        scan_add_special(sh->s, SPECIAL_IFS, c->at);
    judge_command_name(sh, &a, &c->words[name]);
    judge_dd(sh, &a);
    assign_heredocs(sh, scan_interpreter(a.name));
    if (group)
        a.in |= c->group;
    out = a.in | scan_act(sh->s, &a);
    shell_judge_target(sh, c, out, a.endless);
    remember_files(sh, &a, c, out);
    return out | run_text(sh, &a, &c->words[name]);
}

flows shell_judge(struct shell *sh, struct shell_command *c)
{
    size_t name = shell_find_name(sh, c);
    flows out = c->in;

    note_loop_words(sh, c);
    if (name < c->n)
        out = judge_words(sh, c, name);
    else
        shell_judge_target(sh, c, out, sh->loops);
    return out;
}

void shell_add_word(struct shell *sh, struct shell_command *c, struct shell_word w)
{
    if (c->n == SCAN_ARGS_MAX) { /* so far, then the rest under the same name */
        struct shell_word name = c->words[shell_find_name(sh, c) % SCAN_ARGS_MAX];

        shell_judge(sh, c);
        c->words[0] = name;
        c->n = 1;
    }
    c->words[c->n++] = w;
}
