/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "backends/local/local.h"

/* the instance */

static int local_open(const struct backend_context *c, struct backend **ret, struct err *e)
{
    struct backend *x = new0(sizeof *x);
    int r;

    x->c = c;
    r = run_dir_open(&x->run, c->state, e);
    if (r < 0) {
        free(x);
        return r;
    }
    for (size_t i = 0; i < LOCAL_LAUNCHERS; i++)
        local_lane_init(&x->lanes[i], x);
    *ret = x;
    return 0;
}

static void free_boxes(struct list *boxes)
{
    for (struct link *m; (m = list_first(boxes));)
        local_box_free(&container_of(m, struct local_box, link)->backend);
}

static void local_close(struct backend *x)
{
    free_boxes(&x->strays);
    free_boxes(&x->sweeping);
    for (size_t i = 0; i < LOCAL_LAUNCHERS; i++)
        local_lane_done(&x->lanes[i]);
    run_dir_done(&x->run);
    free(x);
}

/* leftovers of earlier daemon runs */

struct stray_search {
    struct backend *x;
    backend_known_fn *known;
    backend_stale_fn *each;
    void *user;
};

static void sweep_next(struct backend *x);

static void on_swept(struct backend_box *backend, int r, const struct err *e,
                     const struct backend_report *report)
{
    struct backend *x = backend->backend;

    if (r < 0)
        LOG(WARN, "sweep.failed", LOG_S("sandbox", backend->id), LOG_S("error", e->msg));
    else
        LOG(INFO, "sandbox.swept", LOG_S("sandbox", backend->id));
    local_box_free(backend);
    x->n_sweeping--;
    sweep_next(x);
}

static void sweep_next(struct backend *x)
{
    for (struct link *m; x->n_sweeping < LOCAL_SWEEP_AT_ONCE && (m = list_take(&x->strays));) {
        list_append(&x->sweeping, m);
        x->n_sweeping++;
        local_teardown(&container_of(m, struct local_box, link)->backend);
    }
}

static bool has_box(struct list *boxes, const char *id)
{
    LIST_EACH (struct local_box, b, boxes, link) {
        if (strcmp(b->backend.id, id) == 0)
            return true;
    }
    return false;
}

static bool is_stray_being_removed(struct backend *x, const char *id)
{
    return has_box(&x->strays, id) || has_box(&x->sweeping, id);
}

static void add_stray(void *user, const char *id)
{
    static const struct backend_box_events events = { .torn_down = on_swept };
    struct stray_search *s = user;

    if (s->known(s->user, id) || is_stray_being_removed(s->x, id))
        return;
    list_append(&s->x->strays, &local_box_of(local_box_new(s->x, id, &events, NULL))->link);
    s->each(s->user, id, "sandbox");
}

static int local_sweep(struct backend *x, backend_known_fn *known, backend_stale_fn *each,
                       void *user, struct err *e)
{
    struct stray_search s = { .x = x, .known = known, .each = each, .user = user };
    int r = run_dir_each(&x->run, add_stray, &s, e);

    sweep_next(x);
    return r;
}

static void report_stray(void *user, const char *id)
{
    struct stray_search *s = user;

    if (!s->known(s->user, id))
        s->each(s->user, id,
                is_stray_being_removed(s->x, id) ? "sandbox, being removed" : "sandbox");
}

static int local_stale(struct backend *x, backend_known_fn *known, backend_stale_fn *each,
                       void *user, struct err *e)
{
    struct stray_search s = { .x = x, .known = known, .each = each, .user = user };

    return run_dir_each(&x->run, report_stray, &s, e);
}

/* the row */

static void local_signal_all(struct backend_box *b, int sig)
{
    local_channel_post_kill(local_box_of(b), TAG_NONE, 0, sig, CONTROL_ALL);
}

/* Self-hosted: no price. */
static int local_estimate(const struct profile *p, int64_t duration_ns, struct backend_quote *ret,
                          struct err *e)
{
    *ret = (struct backend_quote){ 0 };
    return 0;
}

static const char *const regions[] = { "local", NULL };
static const char *const languages[] = { NULL }; /* depends on the image */

const struct backend_ops backend_local = {
    .id = "ext.local",
    .version = SANDBOXER_VERSION,
    .can = BACKEND_CAN_EXEC | BACKEND_CAN_FILES | BACKEND_CAN_REATTACH | BACKEND_CAN_POOL |
           BACKEND_CAN_MOUNTS | BACKEND_CAN_USAGE | BACKEND_CAN_EGRESS | BACKEND_CAN_SNAPSHOT |
           BACKEND_CAN_PAUSE | BACKEND_CAN_DIAL | BACKEND_CAN_IMAGES | BACKEND_CAN_LEND,
    .vector = { .isolation = 1u << ISOLATION_PROCESS | 1u << ISOLATION_CONTAINER,
                .regions = regions,
                .languages = languages },
    .open = local_open,
    .close = local_close,
    .sweep = local_sweep,
    .stale = local_stale,
    .box_new = local_box_new,
    .box_free = local_box_free,
    .provision = local_provision,
    .wait_ready = local_wait_ready,
    .assign = local_assign,
    .adopt = local_adopt,
    .teardown = local_teardown,
    .usage = local_usage,
    .alive = local_alive,
    .listeners = local_egress_listeners,
    .who = local_egress_who,
    .dial = local_dial,
    .dial_drop = local_dial_drop,
    .upper = local_upper,
    .freeze = local_freeze,
    .thaw = local_thaw,
    .start = local_process_start,
    .signal = local_process_signal,
    .signal_all = local_signal_all,
    .close_stdin = local_process_close_stdin,
    .resize = local_process_resize,
    .drop = local_process_drop,
    .reattach = local_process_reattach,
    .forget = local_process_forget,
    .estimate = local_estimate,
};
