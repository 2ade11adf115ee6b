/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in code: their effects and their values. */
#include "engine/scan/code.h"

#include "base/own.h"

static const struct {
    const char *names;
    int languages;
    enum scan_language runs;
} runners[] = {
    { "os.system|os.popen|subprocess.*|commands.get*|pty.spawn|os.exec*|os.spawn*|os.posix_spawn*|"
      "asyncio.create_subprocess_*|Popen|check_output|check_call|popen2.*",
      IN_PYTHON, SCAN_SHELL },
    { "child_process.*|execSync|spawnSync|execFile|execa|shelljs.exec|shell.exec|Deno.run|Bun."
      "spawn",
      IN_JAVASCRIPT, SCAN_SHELL },
    { "system|popen|execl|execlp|execle|execv|execvp|execve|posix_spawn|posix_spawnp", IN_C,
      SCAN_SHELL },
    { "exec|eval|compile|builtins.exec|builtins.eval", IN_PYTHON, SCAN_PYTHON },
    { "eval|Function|vm.runIn*|setTimeout|setInterval|window.eval|globalThis.eval", IN_JAVASCRIPT,
      SCAN_JAVASCRIPT },
};

static void run_literals(struct code *c, const struct code_frame *f)
{
    AUTO(buf_done) struct buf all = BUF_INIT(64 << 10);
    enum scan_language language = SCAN_UNKNOWN;

    for (size_t i = 0; i < COUNT_OF(runners) && language == SCAN_UNKNOWN; i++)
        if ((runners[i].languages & 1 << c->language) &&
            scan_like(runners[i].names, str_from(f->callee)))
            language = runners[i].runs;
    if (language == SCAN_UNKNOWN || !f->n)
        return;
    for (size_t i = 0; i < f->n; i++)
        if (buf_add(&all, code_text(c, &f->args[i])) < 0 || buf_add_c(&all, ' ') < 0)
            break;
    scan_nested(c->s, language, buf_str(&all), code_place(c, f->at));
}

flows code_judge(struct code *c, struct code_frame *f)
{
    struct str args[FRAME_ARGS_MAX];
    struct act a = { .name = str_from(f->callee),
                     .args = args,
                     .at = code_place(c, f->at),
                     .in = f->in,
                     .endless = c->loop };
    flows out;

    for (size_t i = 0; i < f->n; i++) {
        args[a.n] = code_text(c, &f->args[i]);
        if (args[a.n].n > SCAN_WORD_MAX)
            args[a.n].n = SCAN_WORD_MAX;
        a.n++;
    }
    if (a.n == 0 && f->tokens)
        args[a.n++] = STR("?"); /* something that is not known */
    out = f->in | scan_act(c->s, &a);
    if (scan_like("*sleep|*wait|waitpid|accept|accept4|recv*|poll|select|epoll_wait|input|*.accept|"
                  "*.recv|*.get|*.join|"
                  "*.select|*.poll|getchar|read|fgets|exit|_exit|sys.exit|process.exit|pause|*."
                  "communicate|*.result",
                  a.name))
        c->calm = true;
    run_literals(c, f);
    for (size_t i = 0; i < f->n_names && c->language == SCAN_C && out;
         i++) /* read(fd, buffer, n) */
        scan_carry(c->s, str_from(f->names[i]), out | scan_carried(c->s, str_from(f->names[i])));
    return out;
}

/* Evaluates require('x'), __import__('x'), getattr(x, 'y'), chr(114), ''.join(…). */
bool code_resolve(struct code *c, const struct code_frame *f, struct str *ret_text, char *room,
                  size_t cap)
{
    struct str name = str_from(f->callee), first = f->n ? code_text(c, &f->args[0]) : STR("");
    size_t n = 0;

    if (scan_like("require|__import__|importlib.import_module|builtins.__import__", name) && f->n) {
        if (str_starts(first, STR("node:")))
            first = (struct str){ first.p + 5, first.n - 5 };
        code_set_chain(c, "", "", first);
    } else if (str_eq(name, STR("getattr")) && f->n && f->first[0]) {
        code_set_chain(c, f->first, ".", first);
    } else if (scan_like("chr|String.fromCharCode|bytes|bytearray|String.fromCodePoint", name) &&
               f->n_numbers) {
        for (; n < f->n_numbers && n < cap; n++)
            room[n] = (char)f->numbers[n];
        *ret_text = (struct str){ room, n };
    } else if (str_eq(name, STR("''.join")) && f->n) {
        for (size_t i = 0; i < f->n; i++)
            for (size_t j = 0; j < f->args[i].n && n < cap; j++)
                room[n++] = code_text(c, &f->args[i]).p[j];
        *ret_text = (struct str){ room, n };
    } else {
        return false;
    }
    return true;
}
