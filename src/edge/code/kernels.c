/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/kernels.h"

#include <strings.h>

#include "lib/json/writer.h"

static int fail_code_size(const struct buf *out, struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "code: is longer than %zu bytes with env_vars and when encoded",
                   out->max);
}

static int write_json_request(struct buf *out, const char *id, const char *code,
                              const struct json_map *env, struct err *e)
{
    struct json_writer w;
    int r;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "id", id);
    json_field_text(&w, "code", code);
    json_field_begin_object(&w, "env_vars");
    for (size_t i = 0; i < env->n; i++)
        json_field_text(&w, env->p[i].key, env->p[i].value);
    json_end_object(&w);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    if (r >= 0 && buf_add_c(out, '\n') < 0)
        r = fail_code_size(out, e);
    return r;
}

/* --- bash --- */

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Quotes text as $'…' with every byte except word characters and spaces in hexadecimal, so that
 * none has a meaning for the shell. */
static int add_bash_quoted(struct buf *out, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    int r = buf_add(out, STR("$'"));

    for (const char *p = text; r >= 0 && *p; p++) {
        unsigned char b = (unsigned char)*p;
        const char escape[] = { '\\', 'x', hex[b >> 4], hex[b & 15] };

        r = is_word_char(*p) || *p == ' ' ? buf_add_c(out, *p)
                                          : buf_add(out, (struct str){ escape, sizeof escape });
    }
    return r < 0 ? r : buf_add_c(out, '\'');
}

static bool is_bash_variable(const char *name)
{
    size_t n = 0;

    while (is_word_char(name[n]))
        n++;
    return n && !name[n] && !(name[0] >= '0' && name[0] <= '9');
}

static int add_bash_variables(struct buf *out, const struct json_map *env, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < env->n; i++) {
        if (!is_bash_variable(env->p[i].key))
            return err_set(e, ERR_INVALID, "env_vars: '%.60s' is not a valid variable name in bash",
                           env->p[i].key);
        r = buf_addf(out, "%s=", env->p[i].key);
        if (r >= 0)
            r = add_bash_quoted(out, env->p[i].value);
        if (r >= 0)
            r = buf_add_c(out, ' ');
    }
    return r < 0 ? fail_code_size(out, e) : 0;
}

/* Runs the code as a script and not in a function, where its declarations would be local. The
 * variables apply to this script only. */
static int write_bash_request(struct buf *out, const char *id, const char *code,
                              const struct json_map *env, struct err *e)
{
    int r;

    if (buf_addf(out, "__sandboxer_begin %s; ", id) < 0)
        return fail_code_size(out, e);
    r = add_bash_variables(out, env, e);
    if (r < 0)
        return r;
    if (buf_add(out, STR(". /dev/fd/6 6<<<")) < 0 || add_bash_quoted(out, code) < 0 ||
        buf_addf(out, " 7>&- 8>&- 9<&-; __sandboxer_end %s $?\n", id) < 0)
        return fail_code_size(out, e);
    return 0;
}

/* --- the table --- */

/* --expose-internals: for its parser of JavaScript. */
#define NODE(language)                                                                             \
    .argv = { "node", "--expose-internals", "-e", kernel_javascript_js, language }, .argc = 5

static const struct kernel kernels[] = {
    { "python",
      "python3",
      { "python3", "-c", kernel_python_py, "python" },
      4,
      false,
      false,
      write_json_request },
    { "javascript", "js", NODE("javascript"), .raw = true, .interrupt_tree = true,
      .request = write_json_request },
    { "typescript", "ts", NODE("typescript"), .raw = true, .interrupt_tree = true,
      .request = write_json_request },
    { "bash", "sh", { "bash", "-c", kernel_bash_sh, "bash" }, 4, true, true, write_bash_request },
};
const char kernel_languages[] = "python, javascript, typescript and bash";

const struct kernel *kernel_find(const char *language)
{
    if (!language[0])
        return &kernels[0];
    for (size_t i = 0; i < COUNT_OF(kernels); i++)
        if (strcasecmp(kernels[i].language, language) == 0 ||
            strcasecmp(kernels[i].alias, language) == 0)
            return &kernels[i];
    return NULL;
}

/* Sessions of older versions have no language in their command line. */
bool kernel_skips_lines(struct json_strs argv)
{
    return argv.n > 3;
}

const struct kernel *kernel_of(struct json_strs argv)
{
    for (size_t i = 0; argv.n > 2 && i < COUNT_OF(kernels); i++)
        if (strcmp(kernels[i].argv[0], argv.p[0]) == 0 &&
            (argv.n == 3 || strcmp(kernels[i].language, argv.p[argv.n - 1]) == 0))
            return &kernels[i];
    return NULL;
}
