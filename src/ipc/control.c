#include "ipc/control.h"

#include <limits.h>

/* Whether a type is fixed in size, and how large its fixed part is. */
static const struct {
    size_t size;
    bool open_ended;
} layouts[] = {
    [CONTROL_PING] = { sizeof(struct control_head), false },
    [CONTROL_START] = { sizeof(struct control_start), true },
    [CONTROL_KILL] = { sizeof(struct control_kill), false },
    [CONTROL_LIST] = { sizeof(struct control_head), false },
    [CONTROL_PONG] = { sizeof(struct control_head), false },
    [CONTROL_STARTED] = { sizeof(struct control_started), false },
    [CONTROL_FAILED] = { sizeof(struct control_failed), false },
    [CONTROL_EXITED] = { sizeof(struct control_exited), false },
    [CONTROL_KILLED] = { sizeof(struct control_killed), false },
    [CONTROL_PROCS] = { sizeof(struct control_procs), true },
};

/* How many strings each operation takes. */
static const struct {
    uint32_t least, most;
} arguments[CONTROL_WHAT_COUNT_] = {
    [CONTROL_PROGRAM] = { 1, CONTROL_STRINGS_MAX },
    [CONTROL_READ] = { 1, 1 },
    [CONTROL_WRITE] = { 1, 1 },
    [CONTROL_LIST_DIR] = { 1, 1 },
    [CONTROL_STAT] = { 1, 1 },
    [CONTROL_MKDIR] = { 1, 1 },
    [CONTROL_REMOVE] = { 1, 1 },
    [CONTROL_RENAME] = { 2, 2 },
    [CONTROL_WATCH] = { 1, 1 },
    [CONTROL_PACK] = { 1, 1 },
    [CONTROL_UNPACK] = { 1, 1 },
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

static uint32_t count_strings(const char *text, size_t n)
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
    if (count_strings(text, n) != expected)
        return err_set(e, ERR_INVALID, "a request with %u strings has another number of them",
                       expected);
    if (s->what == CONTROL_PROGRAM)
        return 0;
    for (uint32_t i = 0; i < expected - s->envc; i++)
        if (strlen(control_next_string(&at)) >= CONTROL_PATH_MAX)
            return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", CONTROL_PATH_MAX - 1);
    return 0;
}

static int check_start(const struct control_start *s, size_t n, struct err *e)
{
    if (s->what >= CONTROL_WHAT_COUNT_ || (s->flags & ~(uint32_t)CONTROL_FLAGS_ALL_))
        return err_set(e, ERR_INVALID, "a start of an unknown kind");
    if (s->argc < arguments[s->what].least || s->argc > arguments[s->what].most ||
        s->envc > CONTROL_STRINGS_MAX)
        return err_set(e, ERR_INVALID, "a start with %u arguments and %u variables", s->argc,
                       s->envc);
    if (s->timeout_ns < 0 || s->grace_ns < 0)
        return err_set(e, ERR_INVALID, "a negative timeout");
    if (s->uid == UINT32_MAX || s->gid == UINT32_MAX || (s->mode & ~07777u))
        return err_set(e, ERR_INVALID, "an impossible user, group or mode");
    if (s->flags & CONTROL_TEXT_FD)
        return n == sizeof *s && s->text_size <= CONTROL_TEXT_MAX
                   ? 0
                   : err_set(e, ERR_INVALID, "text both in and beside the message");
    if (s->text_size != n - sizeof *s)
        return err_set(e, ERR_INVALID, "text of another size than announced");
    return control_check_text(s, s->text, s->text_size, e);
}

static int check_procs(const struct control_procs *p, size_t n, struct err *e)
{
    if (p->count > CONTROL_PROCS_MAX || n - sizeof *p != p->count * sizeof p->list[0])
        return err_set(e, ERR_INVALID, "a list of another length than announced");
    return 0;
}

static int check_ends(const char *s, size_t cap, struct err *e)
{
    return memchr(s, '\0', cap) ? 0 : err_set(e, ERR_INVALID, "a string that does not end");
}

static int check_kill(const struct control_kill *k, struct err *e)
{
    if (k->sig < 0 || k->sig > 64 || k->scope >= CONTROL_SCOPE_COUNT_)
        return err_set(e, ERR_INVALID, "an impossible signal or scope");
    return 0;
}

static int check_body(const struct control_head *h, size_t n, struct err *e)
{
    const void *m = h;
    int r;

    switch (h->type) {
    case CONTROL_START:
        return check_start(m, n, e);
    case CONTROL_PROCS:
        return check_procs(m, n, e);
    case CONTROL_EXITED:
        return check_ends(((const struct control_exited *)m)->msg,
                          sizeof((const struct control_exited *)m)->msg, e);
    case CONTROL_FAILED:
        r = check_ends(((const struct control_failed *)m)->step,
                       sizeof((const struct control_failed *)m)->step, e);
        if (r < 0)
            return r;
        return check_ends(((const struct control_failed *)m)->msg,
                          sizeof((const struct control_failed *)m)->msg, e);
    case CONTROL_KILL:
        return check_kill(m, e);
    default:
        return 0;
    }
}

int control_check(const void *message, size_t n, struct err *e)
{
    const struct control_head *h = message;

    if (n < sizeof *h || h->magic != CONTROL_MAGIC)
        return err_set(e, ERR_INVALID, "not a control message");
    if (h->version != CONTROL_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "control protocol %u; this is %d", h->version,
                       CONTROL_VERSION);
    if (h->size != n || h->type >= sizeof layouts / sizeof layouts[0] || !layouts[h->type].size)
        return err_set(e, ERR_INVALID, "a control message of type %u with %zu bytes", h->type, n);
    if (layouts[h->type].open_ended ? n < layouts[h->type].size : n != layouts[h->type].size)
        return err_set(e, ERR_INVALID, "a control message of type %u with %zu bytes", h->type, n);
    return check_body(h, n, e);
}
