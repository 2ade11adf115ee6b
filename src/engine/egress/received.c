/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/received.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/io.h"
#include "base/own.h"
#include "domain/policy/egress_ceiling.h"
#include "domain/policy/egress_file.h"
#include "domain/policy/egress_sources.h"

/* Reads a whole file from its beginning. */
static int read_policy_bytes(int fd, struct buf *ret, struct err *e)
{
    struct stat st;
    ssize_t n;
    char *to;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "reading the policy's size");
    if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > ret->max)
        return err_set(e, ERR_TOO_BIG, "a policy must be a regular file of at most %zu bytes",
                       ret->max);
    if (buf_room(ret, (size_t)st.st_size, &to) < 0)
        return err_set(e, ERR_TOO_BIG, "the policy has more than %zu bytes", ret->max);
    n = pread_full(fd, to, (size_t)st.st_size, 0);
    if (n < 0)
        return err_sys(e, "reading the policy");
    if (n < st.st_size)
        return err_set(e, ERR_INVALID, "the policy became shorter while it was read");
    buf_grew(ret, (size_t)n);
    return 0;
}

static int compile_received(const struct egress_policy *p, const struct egress_ceiling *ceiling,
                            uint64_t generation, struct egress_snapshot **ret, struct err *e)
{
    *ret = egress_compile_under(p, ceiling, generation, e);
    return *ret ? 0 : -(int)(e->code ? e->code : ERR_BUG);
}

/* A policy of the control plane must have a ceiling; otherwise it is rejected. */
int received_policy(const struct wire_box *m, const struct ipc_fds *fds,
                    struct egress_snapshot **ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(buf_done) struct buf most = BUF_INIT(EGRESS_CEILING_BYTES_MAX);
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_ceiling ceiling;
    struct egress_policy policy;
    int r = fds->n == 2 ? read_policy_bytes(fds->fd[0], &text, e)
                        : err_set(e, ERR_INVALID,
                                  "a POLICY message needs two descriptors: policy and ceiling");

    if (r >= 0)
        r = egress_policy_from_json(buf_str(&text), &arena, &policy, e);
    if (r >= 0)
        r = read_policy_bytes(fds->fd[1], &most, e);
    if (r >= 0)
        r = egress_ceiling_read(buf_str(&most), &arena, &ceiling, e);
    return r < 0 ? r : compile_received(&policy, &ceiling, m->generation, ret, e);
}

static int parse_policy_file(int fd, struct arena *a, struct egress_policy *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_FILE_BYTES_MAX);
    int r = read_policy_bytes(fd, &text, e);

    return r < 0 ? r : egress_policy_read(buf_str(&text), a, ret, e);
}

/* One item a line. */
static int parse_allow_items(int fd, struct arena *a, struct egress_policy *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_FILE_BYTES_MAX);
    const char **items = arena_array(a, EGRESS_ENDPOINTS_MAX, sizeof *items);
    struct str rest, line;
    size_t n = 0;
    int r = read_policy_bytes(fd, &text, e);

    if (r < 0)
        return r;
    for (rest = buf_str(&text); rest.p && rest.n;) {
        rest = str_cut(rest, '\n', &line);
        if (!items || n == EGRESS_ENDPOINTS_MAX)
            return err_set(e, ERR_TOO_BIG, "more than %d items", EGRESS_ENDPOINTS_MAX);
        if (memchr(line.p, 0, line.n))
            return err_set(e, ERR_INVALID, "item %zu contains a NUL byte", n + 1);
        items[n] = arena_dup(a, line);
        if (!items[n++])
            return err_set(e, ERR_TOO_BIG,
                           "item %zu: the items need more memory than the allowed %zu bytes", n,
                           a->max);
    }
    return egress_from_allow((struct json_strs){ items, n }, a, ret, e);
}

int received_texts(const struct wire_texts *m, const struct ipc_fds *fds,
                   struct egress_snapshot **ret, struct err *e)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy file, allow, all;
    const struct egress_policy *parts[2];
    size_t n = 0;
    int r = 0;

    if (fds->n != (m->has_file ? 1u : 0u) + (m->has_allow ? 1u : 0u))
        return err_set(e, ERR_INVALID,
                       "the number of descriptors does not match the TEXTS message");
    if (m->has_file) {
        parts[n] = &file;
        r = err_wrap(e, parse_policy_file(fds->fd[n++], &arena, &file, e), "%s", m->name);
    }
    if (r >= 0 && m->has_allow) {
        parts[n] = &allow;
        r = err_wrap(e, parse_allow_items(fds->fd[n++], &arena, &allow, e), "--allow");
    }
    if (r >= 0)
        r = egress_join(parts, n, &arena, &all, e);
    /* the number of uses that were left was lost with the previous worker */
    for (size_t i = 0; r >= 0 && m->spent && i < all.network_policies.n; i++) {
        struct egress_entry *entry = (struct egress_entry *)all.network_policies.p + i;

        entry->spent |= entry->has_uses;
    }
    return r < 0 ? r : compile_received(&all, NULL, m->generation, ret, e);
}
