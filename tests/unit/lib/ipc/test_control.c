/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/control.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

enum { ROOM = 8192 };

/* A message under construction. */
static union {
    struct control_head head;
    struct control_start start;
    struct control_kill kill;
    struct control_failed failed;
    struct control_exited exited;
    struct control_procs procs;
    struct control_who_is who_is;
    char room[ROOM];
} m;
static size_t size;

/* Checked in a heap block of just its size: a look behind its end is found by the sanitizer. */
static int check(void)
{
    AUTO_FREE char *copy = malloc(size ? size : 1);

    CHECK(copy);
    memcpy(copy, &m, size);
    return control_check(copy, size, NULL);
}

static void plain(enum control_type type, size_t n)
{
    memset(&m, 0, sizeof m);
    size = n;
    control_fill(&m.head, type, 7, n);
}

/* A start with these strings, each ended by a NUL. */
static void start(enum start_what what, uint32_t argc, uint32_t envc, const char *text, size_t n)
{
    plain(CONTROL_START, sizeof m.start + n);
    m.start.what = what;
    m.start.argc = argc;
    m.start.envc = envc;
    m.start.text_size = (uint32_t)n;
    m.start.text_at = sizeof m.start;
    memcpy(m.room + sizeof m.start, text, n);
}
#define START(what, argc, envc, text) start(what, argc, envc, text, sizeof(text))

TEST(every_plain_message)
{
    static const struct {
        enum control_type type;
        size_t size;
    } types[] = {
        { CONTROL_PING, sizeof(struct control_head) },
        { CONTROL_KILL, offsetof(struct control_kill, grace_ns) },
        { CONTROL_LIST, sizeof(struct control_head) },
        { CONTROL_ATTACH, sizeof(struct control_one) },
        { CONTROL_CLOSE_STDIN, sizeof(struct control_one) },
        { CONTROL_FORGET, sizeof(struct control_one) },
        { CONTROL_USAGE, sizeof(struct control_head) },
        { CONTROL_END, sizeof(struct control_head) },
        { CONTROL_PONG, sizeof(struct control_head) },
        { CONTROL_STARTED, sizeof(struct control_started) },
        { CONTROL_FAILED, sizeof(struct control_failed) },
        { CONTROL_EXITED, offsetof(struct control_exited, oom_kills) },
        { CONTROL_KILLED, sizeof(struct control_killed) },
        { CONTROL_ATTACHED, sizeof(struct control_attached) },
        { CONTROL_DONE, sizeof(struct control_one) },
        { CONTROL_USED, offsetof(struct control_used, memory) },
        { CONTROL_LISTENERS, sizeof(struct control_head) },
        { CONTROL_LISTENING, sizeof(struct control_listening) },
        { CONTROL_WHO, sizeof(struct control_who) },
        { CONTROL_DIALLED, sizeof(struct control_head) },
        { CONTROL_UPPER, sizeof(struct control_head) },
        { CONTROL_UPPER_IS, sizeof(struct control_head) },
        { CONTROL_STAND, sizeof(struct control_head) },
        { CONTROL_GO_ON, sizeof(struct control_head) },
        { CONTROL_STOOD, sizeof(struct control_stood) },
    };

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        plain(types[i].type, types[i].size);
        if (check() != 0)
            FAIL("a good message of type %d is refused", types[i].type);
        for (size_t n = 0; n < types[i].size; n++) { /* cut, and saying so or not */
            size = n;
            if (check() != -ERR_INVALID)
                FAIL("type %d with %zu bytes of %zu passes", types[i].type, n, types[i].size);
            m.head.size = (uint32_t)n;
            if (check() != -ERR_INVALID)
                FAIL("type %d with %zu bytes passes", types[i].type, n);
            m.head.size = (uint32_t)types[i].size;
        }
        plain(types[i].type, types[i].size + 64); /* from a newer peer */
        if (check() != 0)
            FAIL("type %d does not grow", types[i].type);
    }
}

TEST(the_release_of_pid_1)
{
    struct control_pong *pong = (void *)&m, read;

    plain(CONTROL_PONG, sizeof *pong);
    memcpy(pong->release, "1.2.3", sizeof "1.2.3");
    CHECK_INT(check(), 0);
    control_read(pong, &read, sizeof read);
    CHECK_STR(str_from(read.release), "1.2.3");
    memset(pong->release, 'x', sizeof pong->release);
    CHECK_INT(check(), -ERR_INVALID);
    plain(CONTROL_PONG, sizeof pong->head); /* from a PID 1 that does not name it */
    CHECK_INT(check(), 0);
    control_read(pong, &read, sizeof read);
    CHECK_STR(str_from(read.release), "");
}

TEST(every_type_there_is_not)
{
    for (unsigned type = 0; type < 65536; type++) {
        bool known = (type >= CONTROL_PING && type <= CONTROL_JOIN) ||
                     (type >= CONTROL_PONG && type <= CONTROL_STOOD);

        plain((enum control_type)type, sizeof m.head);
        if (!known && check() != -ERR_UNSUPPORTED)
            FAIL("type %u passes", type);
    }
}

TEST(connections_to_ports)
{
    struct control_dial *d = (void *)&m;

    plain(CONTROL_DIAL, sizeof *d);
    d->port = 8080;
    d->family = 4;
    CHECK_INT(check(), 0);
    d->family = 6;
    CHECK_INT(check(), 0);
    d->family = 5;
    CHECK_INT(check(), -ERR_UNSUPPORTED);
    d->family = 4;
    d->port = 0;
    CHECK_INT(check(), -ERR_INVALID);
    plain(CONTROL_DIAL, sizeof *d - 1);
    CHECK_INT(check(), -ERR_INVALID);
}

TEST(heads_that_are_not_ours)
{
    plain(CONTROL_PING, sizeof m.head);
    CHECK_INT(check(), 0);
    m.head.magic ^= 1;
    CHECK_INT(check(), -ERR_INVALID);
    plain(CONTROL_PING, sizeof m.head);
    m.head.version++;
    CHECK_INT(check(), -ERR_UNSUPPORTED);
    plain(CONTROL_PING, sizeof m.head);
    m.head.size++;
    CHECK_INT(check(), -ERR_INVALID);
}

TEST(starts)
{
    START(START_PROGRAM, 1, 0, "/\0true");
    CHECK_INT(check(), 0);
    START(START_PROGRAM, 2, 2, "\0sh\0-x\0A=1\0B=");
    CHECK_INT(check(), 0);
    START(START_PROGRAM, 1, 0, "root\0/\0id");
    m.start.flags = CONTROL_USER_NAME | START_STDIN;
    CHECK_INT(check(), 0);
    START(START_RENAME, 2, 0, "/\0a\0b");
    CHECK_INT(check(), 0);
    plain(CONTROL_START, sizeof m.start);
    m.start.argc = 1;
    m.start.text_at = sizeof m.start;
    m.start.flags = CONTROL_TEXT_FD;
    m.start.text_size = CONTROL_TEXT_MAX;
    CHECK_INT(check(), 0);
}

/* Every operation with every number of paths. */
TEST(numbers_of_paths)
{
    for (unsigned what = 0; what < START_WHAT_COUNT_ + 2u; what++)
        for (uint32_t argc = 0; argc < 4; argc++) {
            uint32_t want = what == START_RENAME ? 2 : what == START_HOME ? 0 : 1;
            bool any = what == START_PROGRAM || what == START_WRITE; /* attributes follow */
            bool more = what == START_PERMIT || what == START_COMPOSE;
            bool good = what == START_UPLOAD ? true /* attributes, or none */
                        : more               ? argc > 1
                        : any                ? argc > 0
                                             : what < START_WHAT_COUNT_ && argc == want;

            start((enum start_what)what, argc, 0, "/\0a\0b\0c", 2 + 2 * argc);
            if ((check() == 0) != good)
                FAIL("operation %u with %u paths", what, argc);
        }
}

#define BREAK(name, statement)                                                                     \
    static void break_##name(void)                                                                 \
    {                                                                                              \
        statement;                                                                                 \
    }
BREAK(what, m.start.what = START_WHAT_COUNT_)
BREAK(what_far, m.start.what = UINT32_MAX)
BREAK(flags, m.start.flags = CONTROL_FLAGS_ALL_ + 1)
BREAK(no_argument, m.start.argc = 0)
BREAK(argc, m.start.argc = 3)
BREAK(argc_far, m.start.argc = UINT32_MAX)
BREAK(envc, m.start.envc = 1)
BREAK(envc_far, m.start.envc = UINT32_MAX)
BREAK(counts_that_wrap, m.start.argc = 2; m.start.envc = UINT32_MAX)
BREAK(timeout, m.start.timeout_ns = -1)
BREAK(grace, m.start.grace_ns = INT64_MIN)
BREAK(uid, m.start.uid = UINT32_MAX)
BREAK(gid, m.start.gid = UINT32_MAX)
BREAK(mode, m.start.mode = 010000)
BREAK(text_size, m.start.text_size--)
BREAK(text_size_far, m.start.text_size = UINT32_MAX)
BREAK(no_end, m.room[size - 1] = 'x')
BREAK(text_at, m.start.text_at++)
BREAK(text_before, m.start.text_at = sizeof m.head)
BREAK(text_behind, m.start.text_at = (uint32_t)size + 1)
BREAK(text_at_far, m.start.text_at = UINT32_MAX)
BREAK(user_name, m.start.flags = CONTROL_USER_NAME)
BREAK(text_twice, m.start.flags = CONTROL_TEXT_FD)
BREAK(lent_to_no_program, m.start.what = START_READ; m.start.flags = CONTROL_LENT)

TEST(starts_that_are_wrong_in_one_place)
{
    static void (*const damages[])(void) = {
        break_no_argument,
        break_argc,
        break_argc_far,
        break_envc,
        break_envc_far,
        break_counts_that_wrap,
        break_timeout,
        break_grace,
        break_uid,
        break_gid,
        break_mode,
        break_text_size,
        break_user_name,
        break_text_size_far,
        break_no_end,
        break_text_twice,
        break_lent_to_no_program,
        break_text_at,
        break_text_before,
        break_text_behind,
        break_text_at_far,
    };

    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        START(START_PROGRAM, 2, 0, "/\0sh\0x");
        CHECK_INT(check(), 0);
        damages[i]();
        if (check() != -ERR_INVALID)
            FAIL("damage %zu passes", i);
    }
}

/* What only a newer client can mean is not wrong, but not known. */
TEST(starts_of_a_kind_to_come)
{
    static void (*const news[])(void) = { break_what, break_what_far, break_flags };

    for (size_t i = 0; i < COUNT_OF(news); i++) {
        START(START_PROGRAM, 2, 0, "/\0sh\0x");
        news[i]();
        CHECK_INT(check(), -ERR_UNSUPPORTED);
    }
}

/* Text where an older client (no cookie) and a newer one (another field) have it. */
TEST(starts_of_other_ages)
{
    static const char text[] = "/\0true";
    const size_t places[] = { offsetof(struct control_start, cookie), sizeof m.start,
                              sizeof m.start + 24 };

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        plain(CONTROL_START, places[i] + sizeof text);
        m.start.argc = 1;
        m.start.text_size = sizeof text;
        m.start.text_at = (uint32_t)places[i];
        memcpy(m.room + places[i], text, sizeof text);
        CHECK_INT(check(), 0);
    }
}

TEST(messages_are_read_as_this_build_knows_them)
{
    struct control_kill k;

    plain(CONTROL_KILL, offsetof(struct control_kill, grace_ns)); /* before there was grace */
    m.kill.proc = 3;
    m.kill.grace_ns = -1; /* behind its end, and not its own */
    CHECK_INT(check(), 0);
    control_read(&m, &k, sizeof k);
    CHECK(k.proc == 3 && k.grace_ns == 0);
    plain(CONTROL_KILL, sizeof m.kill + 40);
    m.kill.scope = CONTROL_ALL;
    m.kill.grace_ns = 5;
    CHECK_INT(check(), 0);
    control_read(&m, &k, sizeof k);
    CHECK(k.grace_ns == 5 && k.head.size == sizeof m.kill + 40);
}

TEST(text_beside_the_message_is_not_longer_than_text_may_be)
{
    plain(CONTROL_START, sizeof m.start);
    m.start.argc = 1;
    m.start.text_at = sizeof m.start;
    m.start.flags = CONTROL_TEXT_FD;
    m.start.text_size = CONTROL_TEXT_MAX + 1;
    CHECK_INT(check(), -ERR_INVALID);
}

static int check_long(enum start_what what, size_t n)
{
    static char text[1 + CONTROL_PATH_MAX + 1];

    memset(text + 1, 'x', n);
    text[1 + n] = '\0';
    start(what, 1, 0, text, n + 2); /* no directory, and one string of n bytes */
    return check();
}

TEST(paths_have_a_length)
{
    CHECK_INT(check_long(START_READ, CONTROL_PATH_MAX - 1), 0);
    CHECK_INT(check_long(START_READ, CONTROL_PATH_MAX), -ERR_TOO_BIG);
    CHECK_INT(check_long(START_PROGRAM, CONTROL_PATH_MAX), 0); /* an argument may be longer */
}

TEST(text_that_came_in_memory)
{
    struct control_start s = { .what = START_PROGRAM, .argc = 2, .envc = 1 };

    CHECK_INT(control_check_text(&s, "/\0a\0b\0C=1", 10, NULL), 0);
    CHECK_INT(control_check_text(&s, "/\0a\0b\0C=1", 9, NULL), -ERR_INVALID);
    CHECK_INT(control_check_text(&s, "/\0a\0b\0", 6, NULL), -ERR_INVALID);
    CHECK_INT(control_check_text(&s, "", 0, NULL), -ERR_INVALID);
    CHECK_INT(control_check_text(&s, "\0\0\0\0", 5, NULL), -ERR_INVALID);
    CHECK_INT(control_check_text(&s, "\0\0\0", 4, NULL), 0);
}

TEST(strings_are_walked_in_order)
{
    static const char text[] = "one\0\0three";
    const char *at = text;

    CHECK_STR(str_from(control_next_string(&at)), "one");
    CHECK_STR(str_from(control_next_string(&at)), "");
    CHECK_STR(str_from(control_next_string(&at)), "three");
    CHECK(at == text + sizeof text);
}

TEST(kills)
{
    static const struct {
        int sig, want;
    } cases[] = { { 0, 0 },
                  { 9, 0 },
                  { 64, 0 },
                  { 65, -ERR_INVALID },
                  { -1, -ERR_INVALID },
                  { INT32_MIN, -ERR_INVALID } };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plain(CONTROL_KILL, sizeof m.kill);
        m.kill.sig = cases[i].sig;
        if (check() != cases[i].want)
            FAIL("signal %d", cases[i].sig);
    }
}

static const struct {
    uint32_t proc, scope;
    int64_t grace_ns;
    int want;
} scopes[] = {
    { 1, CONTROL_TREE, 0, 0 },
    { 0, CONTROL_ALL, 0, 0 },
    { 0, CONTROL_ALL, 1, 0 },
    { 1, CONTROL_ALL, 0, -ERR_INVALID },
    { 1, CONTROL_ONE, 1, -ERR_INVALID },
    { 0, CONTROL_ALL, -1, -ERR_INVALID },
    { 1, CONTROL_SCOPE_COUNT_, 0, -ERR_UNSUPPORTED },
};

TEST(scopes_of_kills)
{
    for (size_t i = 0; i < COUNT_OF(scopes); i++) {
        plain(CONTROL_KILL, sizeof m.kill);
        m.kill.proc = scopes[i].proc;
        m.kill.scope = scopes[i].scope;
        m.kill.grace_ns = scopes[i].grace_ns;
        if (check() != scopes[i].want)
            FAIL("case %zu gives %d", i, check());
    }
}

static void list(uint32_t count, size_t entry)
{
    plain(CONTROL_PROCS, sizeof m.procs + count * entry);
    m.procs.count = count;
    m.procs.entry_size = (uint32_t)entry;
}

TEST(lists)
{
    for (uint32_t count = 0; count < 5; count++) {
        list(count, sizeof m.procs.list[0]);
        CHECK_INT(check(), 0);
        m.procs.count = count + 1;
        CHECK_INT(check(), -ERR_INVALID);
        m.procs.count = UINT32_MAX;
        CHECK_INT(check(), -ERR_INVALID);
    }
    list(0, sizeof m.procs.list[0]);
    m.procs.count = 0x20000000; /* times the size of a row, it is 0 again in 32 bits */
    CHECK_INT(check(), -ERR_INVALID);
}

TEST(lists_with_entries_of_another_age)
{
    enum { LONGER = sizeof(struct control_proc) + 16 };
    struct control_proc row;

    list(2, LONGER);
    memcpy(m.room + sizeof m.procs + LONGER, &(uint32_t){ 7 }, sizeof(uint32_t));
    CHECK_INT(check(), 0);
    control_procs_at(&m.procs, 1, &row);
    CHECK_INT(row.proc, 7);
    list(2, sizeof row - 8); /* less than the first ones had */
    CHECK_INT(check(), -ERR_INVALID);
    list(2, 0);
    CHECK_INT(check(), -ERR_INVALID);
}

TEST(strings_in_answers_end)
{
    plain(CONTROL_EXITED, sizeof m.exited);
    memset(m.exited.msg, 'x', sizeof m.exited.msg);
    CHECK_INT(check(), -ERR_INVALID);
    m.exited.msg[sizeof m.exited.msg - 1] = '\0';
    CHECK_INT(check(), 0);
    plain(CONTROL_FAILED, sizeof m.failed);
    memset(m.failed.step, 'x', sizeof m.failed.step);
    CHECK_INT(check(), -ERR_INVALID);
    m.failed.step[0] = '\0';
    CHECK_INT(check(), 0);
    memset(m.failed.msg, 'x', sizeof m.failed.msg);
    CHECK_INT(check(), -ERR_INVALID);
}

/* Two holders and two executables, with room between and behind entries as a newer peer has. */
static struct control_holder *holder_at(size_t i)
{
    return (void *)(m.room + sizeof m.who_is + i * m.who_is.holder_size);
}

static void who_is(uint32_t more, const char *text, uint32_t n)
{
    uint32_t holder_size = sizeof(struct control_holder) + more,
             exe_size = sizeof(struct control_exe) + more;
    size_t exes = sizeof m.who_is + 2 * holder_size, paths = exes + 2 * exe_size;

    plain(CONTROL_WHO_IS, paths + n);
    m.who_is.n_holders = m.who_is.n_exes = 2;
    m.who_is.holder_size = holder_size;
    m.who_is.exe_size = exe_size;
    m.who_is.text_size = n;
    *holder_at(0) = (struct control_holder){ .pid = 5, .exe = 1, .n_ancestors = 1 };
    *holder_at(1) = (struct control_holder){ .pid = 6 };
    memcpy(m.room + exes, &(struct control_exe){ .ino = 10 }, sizeof(struct control_exe));
    memcpy(m.room + exes + exe_size, &(struct control_exe){ .ino = 11 },
           sizeof(struct control_exe));
    memcpy(m.room + paths, text, n);
}
#define WHO_IS(more, text) who_is(more, text, sizeof(text))

TEST(holders_are_read_as_they_were_written)
{
    for (uint32_t more = 0; more <= 64; more += 8) {
        struct control_holder h;
        struct control_exe x;

        WHO_IS(more, "/a\0/b\nb");
        CHECK_INT(check(), 0);
        control_holder_at(&m.who_is, 1, &h);
        CHECK_INT(h.pid, 6);
        control_holder_at(&m.who_is, 0, &h);
        CHECK_INT(h.exe, 1);
        CHECK_STR(str_from(control_exe_at(&m.who_is, h.exe, &x)), "/b\nb");
        CHECK_INT(x.ino, 11);
        CHECK_STR(str_from(control_exe_at(&m.who_is, h.ancestors[0], &x)), "/a");
        CHECK_INT(x.ino, 10);
    }
}

BREAK(holders, m.who_is.n_holders--)
BREAK(holders_far, m.who_is.n_holders = UINT32_MAX)
BREAK(holder_size, m.who_is.holder_size--)
BREAK(holder_size_far, m.who_is.holder_size = UINT32_MAX)
BREAK(exes, m.who_is.n_exes--)
BREAK(exes_far, m.who_is.n_exes = UINT32_MAX)
BREAK(exe_size, m.who_is.exe_size++)
BREAK(exe_size_far, m.who_is.exe_size = UINT32_MAX)
BREAK(text, m.who_is.text_size--)
BREAK(text_far, m.who_is.text_size = UINT32_MAX)
BREAK(exe, holder_at(1)->exe = 2)
BREAK(ancestor, holder_at(0)->ancestors[0] = 2)
BREAK(ancestors, holder_at(1)->n_ancestors = CONTROL_ANCESTORS_MAX + 1)
BREAK(one_path, memcpy(m.room + size - 3, "xxx", 3))
BREAK(three_paths, m.room[size - 3] = '\0')

TEST(holders_that_are_wrong_in_one_place)
{
    static void (*const damages[])(void) = {
        break_holders, break_holders_far, break_holder_size, break_holder_size_far,
        break_exes,    break_exes_far,    break_exe_size,    break_exe_size_far,
        break_text,    break_text_far,    break_exe,         break_ancestor,
        break_no_end,  break_ancestors,   break_one_path,    break_three_paths,
    };

    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        WHO_IS(0, "/a\0/bb");
        CHECK_INT(check(), 0);
        damages[i]();
        if (check() != -ERR_INVALID)
            FAIL("damage %zu passes", i);
    }
}

TEST(paths_longer_than_there_are)
{
    static char text[CONTROL_PATH_MAX + 2];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = text[CONTROL_PATH_MAX - 1] = '\0'; /* the second one is empty */
    who_is(0, text, CONTROL_PATH_MAX + 1);
    m.room[size - 1] = '\0';
    CHECK_INT(check(), 0);
    text[CONTROL_PATH_MAX - 1] = 'x';
    text[CONTROL_PATH_MAX] = '\0';
    who_is(0, text, CONTROL_PATH_MAX + 2);
    CHECK_INT(check(), -ERR_INVALID);
}
