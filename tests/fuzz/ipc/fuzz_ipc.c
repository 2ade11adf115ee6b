/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of both protocols and launch plans. The first byte says what the rest is; what a check
 * passes must be as good as the check promises. Everything lies in a heap block of just its size,
 * so that a look behind its end does not go unseen. */
#include <stdlib.h>

#include "base/own.h"
#include "lib/ipc/control.h"
#include "engine/runtime/launch.h"

enum { KIND_CONTROL, KIND_TEXT, KIND_LAUNCH, KIND_PLAN, KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void *copy(const uint8_t *data, size_t size)
{
    void *p = malloc(size ? size : 1);

    must(p);
    memcpy(p, data, size);
    return p;
}

/* All strings are there, and end where the text does. */
static void walk_text(const struct control_start *s, const char *text, size_t n)
{
    uint32_t count = s->argc + s->envc + 1 + (s->flags & CONTROL_USER_NAME ? 1 : 0);
    uint32_t paths = count - s->envc;
    const char *at = text;

    for (uint32_t i = 0; i < count; i++) {
        const char *string = control_next_string(&at);

        must(at > string && at <= text + n);
        if (s->what != START_PROGRAM && i < paths)
            must((size_t)(at - string) <= CONTROL_PATH_MAX);
    }
    must(at == text + n);
}

static void check_start(const struct control_start *s, size_t n)
{
    must(s->what < START_WHAT_COUNT_ && s->text_at <= n);
    must(s->argc >= 1 || s->what == START_HOME || s->what == START_UPLOAD);
    must(s->argc <= CONTROL_STRINGS_MAX && s->envc <= CONTROL_STRINGS_MAX);
    must(s->timeout_ns >= 0 && s->grace_ns >= 0);
    must(s->uid != UINT32_MAX && s->gid != UINT32_MAX && s->mode <= 07777);
    if (s->flags & CONTROL_TEXT_FD)
        must(s->text_size <= CONTROL_TEXT_MAX && n == s->text_at);
    else
        walk_text(s, (const char *)s + s->text_at, n - s->text_at);
}

static void check_procs(const struct control_procs *p, size_t n)
{
    uint32_t sum = 0;

    must(p->count <= CONTROL_PROCS_MAX && n == sizeof *p + p->count * (size_t)p->entry_size);
    for (uint32_t i = 0; i < p->count; i++) {
        struct control_proc row;

        control_procs_at(p, i, &row); /* is there to be read */
        sum += row.proc;
    }
    (void)*(volatile uint32_t *)&sum;
}

/* Every index leads to an executable, every executable to a path that ends. */
static void check_who_is(const struct control_who_is *w, size_t n)
{
    const char *end = (const char *)w + n;

    must(w->n_holders <= CONTROL_HOLDERS_MAX && w->n_exes <= CONTROL_EXES_MAX);
    for (uint32_t i = 0; i < w->n_exes; i++) {
        struct control_exe x;
        const char *path = control_exe_at(w, i, &x);

        must(path < end && strlen(path) < (size_t)(end - path) && strlen(path) < CONTROL_PATH_MAX);
    }
    for (uint32_t i = 0; i < w->n_holders; i++) {
        struct control_holder h;

        control_holder_at(w, i, &h);
        must(h.exe < w->n_exes && h.n_ancestors <= CONTROL_ANCESTORS_MAX);
        for (uint32_t k = 0; k < h.n_ancestors; k++)
            must(h.ancestors[k] < w->n_exes);
    }
}

static void check_kill(const void *message)
{
    struct control_kill k;

    control_read(message, &k, sizeof k);
    must(k.sig >= 0 && k.grace_ns >= 0 && k.scope < CONTROL_SCOPE_COUNT_);
    must(k.scope == CONTROL_ALL ? k.proc == 0 : k.grace_ns == 0);
}

static void fuzz_control(const uint8_t *data, size_t size)
{
    AUTO_FREE void *m = copy(data, size);
    const struct control_head *h = m;
    const struct control_failed *f = m;
    const struct control_exited *x = m;

    if (control_check(m, size, NULL) < 0)
        return;
    must(h->magic == CONTROL_MAGIC && h->version == CONTROL_VERSION && h->size == size);
    if (h->type == CONTROL_START)
        check_start(m, size);
    else if (h->type == CONTROL_PROCS)
        check_procs(m, size);
    else if (h->type == CONTROL_FAILED)
        must(strlen(f->step) < sizeof f->step && strlen(f->msg) < sizeof f->msg);
    else if (h->type == CONTROL_EXITED)
        must(strlen(x->msg) < sizeof x->msg);
    else if (h->type == CONTROL_KILL)
        check_kill(m);
    else if (h->type == CONTROL_WHO_IS)
        check_who_is(m, size);
}

/* A start whose text came beside it. */
static void fuzz_text(const uint8_t *data, size_t size)
{
    AUTO_FREE void *head = NULL, *text = NULL;
    const struct control_start *s;

    if (size < sizeof *s)
        return;
    s = head = copy(data, sizeof *s);
    if (control_check(head, sizeof *s, NULL) < 0 || s->head.type != CONTROL_START)
        return;
    text = copy(data + sizeof *s, size - sizeof *s);
    if (control_check_text(s, text, size - sizeof *s, NULL) == 0)
        walk_text(s, text, size - sizeof *s);
}

static void check_source(uint32_t root, const char *path)
{
    must(root <= PLAN_ROOTS_MAX && (root == 0) == (path[0] == '\0'));
    must(path[0] != '/' && strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0);
    must(!strstr(path, "/../") && !strstr(path, "//"));
}

static void check_plan(const struct plan *p)
{
    must(strlen(p->id) < sizeof p->id && strlen(p->hostname) < sizeof p->hostname);
    must(p->n_layers <= PLAN_LAYERS_MAX && p->n_mounts <= PLAN_MOUNTS_MAX);
    must(p->uid < PLAN_IDS && p->gid < PLAN_IDS && !(p->caps & ~plan_grantable_caps()));
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        const char *t = p->mounts[i].target;

        must(strlen(t) < PLAN_TARGET_MAX && t[0] == '/' && t[1] && !strstr(t, "//"));
        must(!strstr(t, "/../") && !strstr(t, "/./") && t[strlen(t) - 1] != '/');
        must(strcmp(t, "/proc") != 0 && strncmp(t, "/proc/", 6) != 0);
        must(strlen(p->mounts[i].source) < PLAN_SOURCE_MAX);
        check_source(p->mounts[i].root, p->mounts[i].source);
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        must(strlen(p->layers[i].path) < PLAN_LAYER_MAX);
        check_source(p->layers[i].root, p->layers[i].path);
    }
}

static void fuzz_launch(const uint8_t *data, size_t size)
{
    AUTO_FREE void *m = copy(data, size);
    const struct launch_head *h = m;

    if (launch_check(m, size, NULL) < 0)
        return;
    must(h->magic == LAUNCH_MAGIC && h->size == size);
    if (h->type == LAUNCH_DESTROY)
        must(strlen(((const struct launch_named *)m)->id) < ID_MAX);
    else if (h->type == LAUNCH_CREATE &&
             plan_check(&((const struct launch_create *)m)->plan,
                        size - offsetof(struct launch_create, plan), NULL) == 0)
        check_plan(&((const struct launch_create *)m)->plan);
}

static void fuzz_plan(const uint8_t *data, size_t size)
{
    AUTO_FREE void *p = copy(data, size);

    if (plan_check(p, size, NULL) == 0)
        check_plan(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[KINDS])(const uint8_t *data, size_t size) = {
        [KIND_CONTROL] = fuzz_control,
        [KIND_TEXT] = fuzz_text,
        [KIND_LAUNCH] = fuzz_launch,
        [KIND_PLAN] = fuzz_plan,
    };

    if (size > 0)
        kinds[data[0] % KINDS](data + 1, size - 1);
    return 0;
}
