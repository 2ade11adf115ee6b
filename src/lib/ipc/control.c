/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/control.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

/* The minimum size of each type: its first layout. Later versions append members. */
static const size_t layouts[] = {
    [CONTROL_PING] = sizeof(struct control_head),
    [CONTROL_START] = offsetof(struct control_start, cookie),
    [CONTROL_KILL] = offsetof(struct control_kill, grace_ns),
    [CONTROL_LIST] = sizeof(struct control_head),
    [CONTROL_ATTACH] = sizeof(struct control_one),
    [CONTROL_CLOSE_STDIN] = sizeof(struct control_one),
    [CONTROL_FORGET] = sizeof(struct control_one),
    [CONTROL_USAGE] = sizeof(struct control_head),
    [CONTROL_END] = sizeof(struct control_head),
    [CONTROL_LISTENERS] = sizeof(struct control_head),
    [CONTROL_WHO] = sizeof(struct control_who),
    [CONTROL_DIAL] = sizeof(struct control_dial),
    [CONTROL_UPPER] = sizeof(struct control_head),
    [CONTROL_STAND] = sizeof(struct control_head),
    [CONTROL_GO_ON] = sizeof(struct control_head),
    [CONTROL_JOIN] = sizeof(struct control_head),
    [CONTROL_PONG] = sizeof(struct control_head),
    [CONTROL_STARTED] = sizeof(struct control_started),
    [CONTROL_FAILED] = sizeof(struct control_failed),
    [CONTROL_EXITED] = offsetof(struct control_exited, oom_kills),
    [CONTROL_KILLED] = sizeof(struct control_killed),
    [CONTROL_PROCS] = sizeof(struct control_procs),
    [CONTROL_ATTACHED] = sizeof(struct control_attached),
    [CONTROL_DONE] = sizeof(struct control_one),
    [CONTROL_USED] = offsetof(struct control_used, memory),
    [CONTROL_LISTENING] = sizeof(struct control_listening),
    [CONTROL_WHO_IS] = sizeof(struct control_who_is),
    [CONTROL_DIALLED] = sizeof(struct control_head),
    [CONTROL_UPPER_IS] = sizeof(struct control_head),
    [CONTROL_STOOD] = sizeof(struct control_stood),
};

/* The number of arguments of each operation. */
static const struct {
    uint32_t least, most;
} arguments[START_WHAT_COUNT_] = {
    [START_PROGRAM] = { 1, CONTROL_STRINGS_MAX },
    [START_READ] = { 1, 1 },
    [START_WRITE] = { 1, 1 + CONTROL_ATTRIBUTE_COUNT_MAX },
    [START_LIST] = { 1, 1 },
    [START_STAT] = { 1, 1 },
    [START_MKDIR] = { 1, 1 },
    [START_REMOVE] = { 1, 1 },
    [START_RENAME] = { 2, 2 },
    [START_WATCH] = { 1, 1 },
    [START_PACK] = { 1, 1 },
    [START_UNPACK] = { 1, 1 },
    [START_HOME] = { 0, 0 },
    [START_PERMIT] = { 2, 4 },
    [START_COMPOSE] = { 2, 1 + START_COMPOSE_MAX },
    [START_UPLOAD] = { 0, CONTROL_ATTRIBUTE_COUNT_MAX },
};

void control_fill(struct control_head *h, enum control_type type, uint32_t tag, size_t size)
{
    *h = (struct control_head){ .magic = CONTROL_MAGIC,
                                .version = CONTROL_VERSION,
                                .type = (uint16_t)type,
                                .tag = tag,
                                .size = (uint32_t)size };
}

const char *control_next_string(const char **at)
{
    const char *s = *at;

    *at += strlen(s) + 1;
    return s;
}

static uint32_t count_nul_strings(const char *text, size_t n)
{
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += text[i] == '\0';
    return count;
}

int control_check_text(const struct control_start *s, const char *text, size_t n, struct err *e)
{
    uint32_t expected = s->argc + s->envc + 1 + ((s->flags & CONTROL_USER_NAME) ? 1 : 0);
    const char *at = text;

    if (n == 0 || n > CONTROL_TEXT_MAX || text[n - 1] != '\0')
        return err_set(e, ERR_INVALID, "text of a request does not end");
    if (count_nul_strings(text, n) != expected)
        return err_set(e, ERR_INVALID, "a request with %u strings has another number of them",
                       expected);
    if (s->what == START_PROGRAM)
        return 0;
    for (uint32_t i = 0; i < expected - s->envc; i++)
        if (strlen(control_next_string(&at)) >= CONTROL_PATH_MAX)
            return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", CONTROL_PATH_MAX - 1);
    return 0;
}

static int check_place_of_text(const struct control_start *s, size_t n, struct err *e)
{
    if (s->text_at < layouts[CONTROL_START] || s->text_at > n)
        return err_set(e, ERR_INVALID, "text at a place that the request does not have");
    if (s->flags & CONTROL_TEXT_FD)
        return n == s->text_at && s->text_size <= CONTROL_TEXT_MAX
                   ? 0
                   : err_set(e, ERR_INVALID, "text both in and beside the message");
    if (s->text_size != n - s->text_at)
        return err_set(e, ERR_INVALID, "text of another size than announced");
    return control_check_text(s, (const char *)s + s->text_at, s->text_size, e);
}

static int check_start_message(const struct control_start *s, size_t n, struct err *e)
{
    if (s->what >= START_WHAT_COUNT_ || (s->flags & ~(uint32_t)CONTROL_FLAGS_ALL_))
        return err_set(e, ERR_UNSUPPORTED, "a start of an unknown kind (%u, flags %x)", s->what,
                       s->flags);
    if (s->argc < arguments[s->what].least || s->argc > arguments[s->what].most ||
        s->envc > CONTROL_STRINGS_MAX)
        return err_set(e, ERR_INVALID, "a start with %u arguments and %u variables", s->argc,
                       s->envc);
    if (s->timeout_ns < 0 || s->grace_ns < 0)
        return err_set(e, ERR_INVALID, "a negative timeout");
    if ((s->flags & CONTROL_LENT) && s->what != START_PROGRAM)
        return err_set(e, ERR_INVALID, "descriptors for what is no program");
    if (s->uid == UINT32_MAX || s->gid == UINT32_MAX || (s->mode & ~07777u))
        return err_set(e, ERR_INVALID, "an impossible user, group or mode");
    return check_place_of_text(s, n, e);
}

enum { FIRST_HOLDER = sizeof(struct control_holder), FIRST_EXE = sizeof(struct control_exe) };

static const char *paths_of(const struct control_who_is *m)
{
    return (const char *)(m + 1) + m->n_holders * (size_t)m->holder_size +
           m->n_exes * (size_t)m->exe_size;
}

static int check_exe_paths(const struct control_who_is *m, struct err *e)
{
    const char *text = paths_of(m), *at = text;

    if (count_nul_strings(text, m->text_size) != m->n_exes ||
        (m->text_size && text[m->text_size - 1] != '\0'))
        return err_set(e, ERR_INVALID, "executables with another number of paths");
    while (at < text + m->text_size)
        if (strlen(control_next_string(&at)) >= CONTROL_PATH_MAX)
            return err_set(e, ERR_INVALID, "an executable's path has more than %d bytes",
                           CONTROL_PATH_MAX - 1);
    return 0;
}

static int check_who_is_message(const struct control_who_is *m, size_t n, struct err *e)
{
    int r;

    if (m->n_holders > CONTROL_HOLDERS_MAX || m->n_exes > CONTROL_EXES_MAX ||
        m->holder_size < FIRST_HOLDER || m->holder_size > CONTROL_WHO_IS_MAX ||
        m->exe_size < FIRST_EXE || m->exe_size > CONTROL_WHO_IS_MAX ||
        m->text_size > CONTROL_WHO_IS_MAX ||
        n != sizeof *m + m->n_holders * (size_t)m->holder_size + m->n_exes * (size_t)m->exe_size +
                 m->text_size)
        return err_set(e, ERR_INVALID, "holders of another number or size than announced");
    r = check_exe_paths(m, e);
    for (uint32_t i = 0; i < m->n_holders && r >= 0; i++) {
        struct control_holder h;
        bool whole;

        control_holder_at(m, i, &h);
        whole = h.exe < m->n_exes && h.n_ancestors <= CONTROL_ANCESTORS_MAX;
        for (uint32_t k = 0; whole && k < h.n_ancestors; k++)
            whole = h.ancestors[k] < m->n_exes;
        if (!whole)
            r = err_set(e, ERR_INVALID, "a holder with executables that are not there");
    }
    return r;
}

static int check_ends(const char *s, size_t cap, struct err *e)
{
    return memchr(s, '\0', cap) ? 0 : err_set(e, ERR_INVALID, "a string that does not end");
}

static int check_kill(const void *message, struct err *e)
{
    struct control_kill k;

    control_read(message, &k, sizeof k);
    if (k.scope >= CONTROL_SCOPE_COUNT_)
        return err_set(e, ERR_UNSUPPORTED, "a signal to a scope %u that is not known", k.scope);
    if (k.sig < 0 || k.sig > 64)
        return err_set(e, ERR_INVALID, "an impossible signal");
    if (k.grace_ns < 0 || (k.scope == CONTROL_ALL ? k.proc != 0 : k.grace_ns != 0))
        return err_set(e, ERR_INVALID, "a signal with a process or time that its scope has not");
    return 0;
}

static int check_body(const struct control_head *h, size_t n, struct err *e)
{
    const void *m = h;
    const struct control_procs *p = m;
    const struct control_exited *exited = m;
    const struct control_failed *failed = m;
    const struct control_pong *pong = m;
    const struct control_dial *dial = m;
    int r;

    switch (h->type) {
    case CONTROL_START:
        return check_start_message(m, n, e);
    case CONTROL_PROCS:
        if (p->count > CONTROL_PROCS_MAX || p->entry_size < sizeof(struct control_proc) ||
            p->entry_size > IPC_MESSAGE_MAX || p->entry_size % _Alignof(struct control_proc) ||
            n - sizeof *p != p->count * (size_t)p->entry_size)
            return err_set(e, ERR_INVALID, "a list of another length than announced");
        return 0;
    case CONTROL_WHO_IS:
        return check_who_is_message(m, n, e);
    case CONTROL_EXITED:
        return check_ends(exited->msg, sizeof exited->msg, e);
    case CONTROL_FAILED:
        r = check_ends(failed->step, sizeof failed->step, e);
        return r < 0 ? r : check_ends(failed->msg, sizeof failed->msg, e);
    case CONTROL_PONG:
        return n < sizeof *pong ? 0 : check_ends(pong->release, sizeof pong->release, e);
    case CONTROL_KILL:
        return check_kill(m, e);
    case CONTROL_DIAL:
        if (!dial->port)
            return err_set(e, ERR_INVALID, "a connection to port 0");
        if (dial->family != 4 && dial->family != 6)
            return err_set(e, ERR_UNSUPPORTED, "a connection of the unknown family %u",
                           dial->family);
        return 0;
    default:
        return 0;
    }
}

void control_read(const void *message, void *ret, size_t size)
{
    const struct control_head *h = message;
    size_t has = h->size < size ? h->size : size;

    memcpy(ret, message, has);
    memset((char *)ret + has, 0, size - has);
}

/* Copies up to `size` bytes of entry i, and fills the rest with zeros. */
static void read_entry(const void *list, uint32_t i, size_t entry_size, void *ret, size_t size)
{
    memset(ret, 0, size);
    memcpy(ret, (const char *)list + i * entry_size, entry_size < size ? entry_size : size);
}

void control_procs_at(const struct control_procs *p, uint32_t i, struct control_proc *ret)
{
    read_entry(p->list, i, p->entry_size, ret, sizeof *ret);
}

void control_holder_at(const struct control_who_is *m, uint32_t i, struct control_holder *ret)
{
    read_entry(m + 1, i, m->holder_size, ret, sizeof *ret);
}

const char *control_exe_at(const struct control_who_is *m, uint32_t i, struct control_exe *ret)
{
    const char *at = paths_of(m);

    read_entry((const char *)(m + 1) + m->n_holders * (size_t)m->holder_size, i, m->exe_size, ret,
               sizeof *ret);
    while (i--)
        control_next_string(&at);
    return at;
}

int control_check(const void *message, size_t n, struct err *e)
{
    const struct control_head *h = message;

    if (n < sizeof *h || h->magic != CONTROL_MAGIC)
        return err_set(e, ERR_INVALID, "not a control message");
    if (h->version != CONTROL_VERSION)
        return err_set(e, ERR_UNSUPPORTED,
                       "the other end speaks control protocol %u, this version of sandboxer %d",
                       h->version, CONTROL_VERSION);
    if (h->size != n || n > IPC_MESSAGE_MAX)
        return err_set(e, ERR_INVALID, "a control message of %u bytes in a packet of %zu", h->size,
                       n);
    if (h->type >= sizeof layouts / sizeof layouts[0] || !layouts[h->type])
        return err_set(e, ERR_UNSUPPORTED, "a control message of the unknown type %u", h->type);
    if (n < layouts[h->type])
        return err_set(e, ERR_INVALID, "a control message of type %u with %zu bytes", h->type, n);
    return check_body(h, n, e);
}
