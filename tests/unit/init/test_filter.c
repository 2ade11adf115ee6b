/* The filters, against the same policy as libseccomp compiles it, and against the kernel.
 *
 * There is one intended difference. libseccomp compares arguments as 64-bit numbers; where the
 * kernel expects an int it drops the upper half, and so do we. Hence what must be equal is our
 * answer to any call and libseccomp's answer to the same call as the kernel will see it. (In
 * practice: personality(-1) works, and setpriority or socket with dirt in the upper half of a
 * register are judged by what they do.) */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "init/filter_programs.h"
#include "init/filter_table.h"
#include "init/init.h"
#include "proc/sys.h"

enum { ARGUMENTS = 6, NUMBERS = 1024, DENIED_BITS = 06000 };
#define DIRT (UINT64_C(0xdeadbeef) << 32)

struct program {
    const struct sock_filter *code;
    size_t n;
};

static const struct program plain = { filter_plain, COUNT_OF(filter_plain) };
static const struct program with_set_ids = { filter_with_set_ids, COUNT_OF(filter_with_set_ids) };

static uint32_t load(const struct seccomp_data *d, uint32_t at)
{
    uint32_t word;

    if (at % sizeof word != 0 || at + sizeof word > sizeof *d)
        FAIL("load at %u", at);
    memcpy(&word, (const char *)d + at, sizeof word);
    return word;
}

static size_t jump(const struct sock_filter *s, uint32_t a)
{
    switch (BPF_OP(s->code)) {
    case BPF_JA:
        return s->k;
    case BPF_JEQ:
        return a == s->k ? s->jt : s->jf;
    case BPF_JGT:
        return a > s->k ? s->jt : s->jf;
    case BPF_JGE:
        return a >= s->k ? s->jt : s->jf;
    case BPF_JSET:
        return a & s->k ? s->jt : s->jf;
    default:
        FAIL("jump %#x", s->code);
    }
}

/* What the kernel does with a program. */
static uint32_t run(struct program p, const struct seccomp_data *d)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < p.n; pc++) {
        const struct sock_filter *s = &p.code[pc];

        if (s->code == (BPF_RET | BPF_K))
            return s->k;
        if (s->code == (BPF_LD | BPF_W | BPF_ABS))
            a = load(d, s->k);
        else if (s->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= s->k;
        else if (BPF_CLASS(s->code) == BPF_JMP)
            pc += jump(s, a);
        else
            FAIL("instruction %#x", s->code);
    }
    FAIL("ran over the end");
}

static struct seccomp_data call_of(uint32_t nr)
{
    return (struct seccomp_data){ .nr = (int)nr, .arch = seccomp_arch_native() };
}

static uint32_t run_number(struct program p, int nr)
{
    struct seccomp_data d = call_of((uint32_t)nr);

    return run(p, &d);
}

static void rule(scmp_filter_ctx ctx, uint32_t action, const char *name, unsigned n,
                 const struct scmp_arg_cmp *tests)
{
    int nr = seccomp_syscall_resolve_name(name + (name[0] == '?'));

    if (nr >= 0 && seccomp_rule_add_array(ctx, action, nr, n, tests) < 0)
        FAIL("libseccomp refuses a rule for %s", name);
}

/* Not SCMP_CMP(), which leaves out a member and so has clang warn. */
static struct scmp_arg_cmp test_of(unsigned argument, enum scmp_compare op, uint64_t a, uint64_t b)
{
    return (struct scmp_arg_cmp){ .arg = argument, .op = op, .datum_a = a, .datum_b = b };
}

static void rule_if(scmp_filter_ctx ctx, uint32_t action, const char *name, struct scmp_arg_cmp t)
{
    rule(ctx, action, name, 1, &t);
}

static void oracle_bits(scmp_filter_ctx ctx, const char *name, unsigned argument, uint32_t bits)
{
    rule_if(ctx, SCMP_ACT_ALLOW, name, test_of(argument, SCMP_CMP_MASKED_EQ, bits, 0));
    for (uint64_t bit = 1; bit <= bits; bit <<= 1)
        if (bits & bit)
            rule_if(ctx, SCMP_ACT_ERRNO(EPERM), name,
                    test_of(argument, SCMP_CMP_MASKED_EQ, bit, bit));
}

static void oracle_socket(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp route[] = { test_of(0, SCMP_CMP_EQ, AF_NETLINK, 0),
                                          test_of(2, SCMP_CMP_EQ, 0, 0) };
    const struct scmp_arg_cmp other[] = { test_of(0, SCMP_CMP_EQ, AF_NETLINK, 0),
                                          test_of(2, SCMP_CMP_NE, 0, 0) };

    for (unsigned family = 0; family < 64; family++) {
        bool allowed = family == AF_UNIX || family == AF_INET || family == AF_INET6;

        if (family != AF_NETLINK)
            rule_if(ctx, allowed ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket",
                    test_of(0, SCMP_CMP_EQ, family, 0));
    }
    rule_if(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", test_of(0, SCMP_CMP_GE, 64, 0));
    rule(ctx, SCMP_ACT_ALLOW, "socket", 2, route);
    rule(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), "socket", 2, other);
}

static void oracle_numbers(scmp_filter_ctx ctx)
{
    rule_if(ctx, SCMP_ACT_ALLOW, "prlimit64", test_of(0, SCMP_CMP_EQ, 0, 0));
    rule_if(ctx, SCMP_ACT_ERRNO(EPERM), "prlimit64", test_of(0, SCMP_CMP_NE, 0, 0));
    rule_if(ctx, SCMP_ACT_ALLOW, "personality", test_of(0, SCMP_CMP_EQ, 0, 0));
    rule_if(ctx, SCMP_ACT_ALLOW, "personality", test_of(0, SCMP_CMP_EQ, 0x20000, 0));
    rule_if(ctx, SCMP_ACT_ALLOW, "personality", test_of(0, SCMP_CMP_EQ, 0x40000, 0));
    rule_if(ctx, SCMP_ACT_ALLOW, "personality", test_of(0, SCMP_CMP_EQ, 0xffffffff, 0));
}

static struct program oracle_export(scmp_filter_ctx ctx)
{
    static struct sock_filter code[BPF_MAXINSNS];
    int fd = memfd_create("bpf", MFD_CLOEXEC);
    ssize_t n;

    CHECK(fd >= 0 && seccomp_export_bpf(ctx, fd) == 0);
    n = pread(fd, code, sizeof code, 0);
    CHECK(n > 0 && (size_t)n % sizeof code[0] == 0);
    close(fd);
    seccomp_release(ctx);
    return (struct program){ code, (size_t)n / sizeof code[0] };
}

/* The same policy by libseccomp. The names are shared, what is asked about arguments is not. */
static struct program oracle(bool may_set_ids)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    CHECK(ctx);
    CHECK(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0);
    for (size_t i = 0; i < COUNT_OF(filter_allowed); i++)
        rule(ctx, SCMP_ACT_ALLOW, filter_allowed[i], 0, NULL);
    for (size_t i = 0; i < COUNT_OF(filter_denied); i++)
        rule(ctx, SCMP_ACT_ERRNO(EPERM), filter_denied[i], 0, NULL);
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++)
        oracle_bits(ctx, filter_modes[i].name, filter_modes[i].argument,
                    may_set_ids ? 0 : DENIED_BITS);
    oracle_bits(ctx, "clone", 0,
                CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                    CLONE_NEWCGROUP);
    oracle_socket(ctx);
    oracle_numbers(ctx);
    return oracle_export(ctx);
}

/* Bit n: argument n must not be PID 1. */
static unsigned spares_pid_1(int nr)
{
    switch (nr) {
    case SYS_kill:
    case SYS_tkill:
    case SYS_rt_sigqueueinfo:
    case SYS_pidfd_open:
    case SYS_sched_setaffinity:
    case SYS_sched_setscheduler:
    case SYS_sched_setparam:
    case SYS_sched_setattr:
        return 1;
    case SYS_setpriority:
    case SYS_ioprio_set:
        return 2;
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
        return 3;
    default:
        return 0;
    }
}

static bool is_terminal_call(const struct seccomp_data *d)
{
    uint32_t request = (uint32_t)d->args[1];

    return d->nr == SYS_ioctl && (request == 0x5412 || request == 0x541c || request == 0x5423);
}

static bool has_pass(const struct seccomp_data *d)
{
    return (uint32_t)d->args[4] == FILTER_PASS_FIRST && (uint32_t)d->args[5] == FILTER_PASS_SECOND;
}

/* Calls about which libseccomp cannot ask what we do, or only in more words than we. */
static bool is_guarded(int nr)
{
    return spares_pid_1(nr) || nr == SYS_ioctl || nr == SYS_openat2;
}

static uint32_t guard_should(const struct seccomp_data *d)
{
    if (d->nr == SYS_openat2)
        return has_pass(d) ? FILTER_ALLOW : FILTER_REFUSE(ENOSYS);
    if (d->nr == SYS_setpriority && (uint32_t)d->args[0] >= 2)
        return FILTER_REFUSE(EPERM);
    for (unsigned i = 0; i < 2; i++)
        if (spares_pid_1(d->nr) >> i & 1 && (uint32_t)d->args[i] == 1)
            return FILTER_REFUSE(EPERM);
    return is_terminal_call(d) ? FILTER_REFUSE(EPERM) : FILTER_ALLOW;
}

static uint32_t wanted(struct program theirs, const struct seccomp_data *d)
{
    return d->arch == seccomp_arch_native() && is_guarded(d->nr) ? guard_should(d) : run(theirs, d);
}

static void compare(struct program ours, struct program theirs, const struct seccomp_data *d)
{
    struct seccomp_data dirty = *d;
    uint32_t want = wanted(theirs, d);

    for (size_t i = 0; i < ARGUMENTS; i++)
        dirty.args[i] |= DIRT;
    if (run(ours, d) != want || run(ours, &dirty) != want)
        FAIL("call %d(%#llx, %#llx, %#llx, %#llx): %#x, with dirt %#x, not %#x", d->nr,
             (unsigned long long)d->args[0], (unsigned long long)d->args[1],
             (unsigned long long)d->args[2], (unsigned long long)d->args[3], run(ours, d),
             run(ours, &dirty), want);
}

/* Every value in every argument, the others 0. */
static void compare_arguments(struct program ours, struct program theirs, uint32_t nr)
{
    static const uint32_t edges[] = { 04755,      02755,      DENIED_BITS, 07777,      0x5412,
                                      0x541c,     0x1ffff,    0x20000,     0x40000,    0x20001,
                                      0x7e020000, 0x7fffffff, 0x80000001,  UINT32_MAX, 0xfffffffe };

    for (size_t i = 0; i < ARGUMENTS; i++) {
        struct seccomp_data d = call_of(nr);

        for (d.args[i] = 0; d.args[i] <= 70; d.args[i]++)
            compare(ours, theirs, &d);
        for (unsigned bit = 0; bit < 32; bit++) {
            d.args[i] = UINT64_C(1) << bit;
            compare(ours, theirs, &d);
        }
        for (size_t k = 0; k < COUNT_OF(edges); k++) {
            d.args[i] = edges[k];
            compare(ours, theirs, &d);
        }
    }
}

static void compare_numbers(struct program ours, struct program theirs)
{
    static const uint32_t edges[] = { 0x3fffffff, 0x40000000, 0x40000001, 0x40000027, 0x400003ff,
                                      0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, UINT32_MAX };

    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        compare_arguments(ours, theirs, nr);
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        compare_arguments(ours, theirs, edges[i]);
}

static void compare_modes(struct program ours, struct program theirs)
{
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++) {
        int nr = seccomp_syscall_resolve_name(filter_modes[i].name);
        struct seccomp_data d = call_of((uint32_t)nr);

        for (uint32_t mode = 0; nr >= 0 && mode <= 0177777; mode++) {
            d.args[filter_modes[i].argument] = mode;
            compare(ours, theirs, &d);
        }
    }
}

static void compare_sockets(struct program ours, struct program theirs)
{
    struct seccomp_data d = call_of(SYS_socket);

    for (d.args[0] = 0; d.args[0] <= 70; d.args[0]++)
        for (d.args[2] = 0; d.args[2] <= 300; d.args[2]++)
            compare(ours, theirs, &d);
}

static void compare_clones(struct program ours, struct program theirs)
{
    struct seccomp_data d = call_of(SYS_clone);

    for (unsigned a = 0; a < 32; a++)
        for (unsigned b = 0; b < 32; b++) {
            d.args[0] = UINT64_C(1) << a | UINT64_C(1) << b | SIGCHLD;
            compare(ours, theirs, &d);
        }
}

static void compare_processes(struct program ours, struct program theirs)
{
    const uint32_t pids[] = { 0, 1, (uint32_t)getpid(), (uint32_t)-1 };

    for (size_t i = 0; i < COUNT_OF(pids); i++) {
        struct seccomp_data d = call_of(SYS_prlimit64);

        d.args[0] = pids[i];
        compare(ours, theirs, &d);
        d = call_of(SYS_setpriority);
        d.args[1] = pids[i];
        for (d.args[0] = 0; d.args[0] < 5; d.args[0]++)
            compare(ours, theirs, &d);
    }
}

/* Two arguments at a time, with dirt in their upper halves; and the pass, right and nearly. */
static void compare_guarded(struct program ours)
{
    static const uint64_t values[] = { 0,      1,          2,      0x5412,        0x5413,
                                       0x541c, UINT32_MAX, DIRT,   DIRT | 1,      DIRT | 0x5412,
                                       7,      1000,       0x8001, DIRT | 0x541c, 0x80000001,
                                       0x5423 };
    static const uint64_t passes[] = { 0, FILTER_PASS_FIRST, FILTER_PASS_SECOND,
                                       DIRT | FILTER_PASS_FIRST, FILTER_PASS_FIRST + 1 };

    for (int nr = 0; nr < NUMBERS; nr++)
        for (size_t a = 0; is_guarded(nr) && a < COUNT_OF(values); a++)
            for (size_t b = 0; b < COUNT_OF(values); b++) {
                struct seccomp_data d = call_of((uint32_t)nr);

                d.args[0] = values[a];
                d.args[1] = values[b];
                d.args[4] = passes[a % COUNT_OF(passes)];
                d.args[5] = passes[b % COUNT_OF(passes)];
                if (run(ours, &d) != guard_should(&d))
                    FAIL("call %d(%#llx, %#llx): %#x", nr, (unsigned long long)values[a],
                         (unsigned long long)values[b], run(ours, &d));
            }
}

static void compare_architectures(struct program ours, struct program theirs)
{
    static const uint32_t others[] = { 0,
                                       AUDIT_ARCH_I386,
                                       AUDIT_ARCH_ARM,
                                       AUDIT_ARCH_X86_64,
                                       AUDIT_ARCH_AARCH64,
                                       AUDIT_ARCH_RISCV64,
                                       UINT32_MAX };

    for (size_t i = 0; i < COUNT_OF(others); i++)
        for (uint32_t nr = 0; nr < NUMBERS; nr++) {
            struct seccomp_data d = call_of(nr);

            d.arch = others[i];
            compare(ours, theirs, &d);
            CHECK(d.arch == seccomp_arch_native() || run(ours, &d) == SECCOMP_RET_KILL_PROCESS);
        }
}

static void compare_all(struct program ours, struct program theirs)
{
    compare_numbers(ours, theirs);
    compare_modes(ours, theirs);
    compare_sockets(ours, theirs);
    compare_clones(ours, theirs);
    compare_processes(ours, theirs);
    compare_guarded(ours);
    compare_architectures(ours, theirs);
}

TEST(plain_filter_is_what_libseccomp_makes)
{
    compare_all(plain, oracle(false));
}

TEST(filter_with_set_ids_is_what_libseccomp_makes)
{
    compare_all(with_set_ids, oracle(true));
}

/* What the compiler is for: the kernel's work at each load grows with the length. */
TEST(programs_are_short)
{
    CHECK(plain.n <= 160);
    CHECK(with_set_ids.n <= 160);
}

static void check_names(const char *const *names, size_t n, uint32_t action)
{
    for (size_t i = 0; i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i] + (names[i][0] == '?'));

        if (nr >= 0 && (run_number(plain, nr) != action || run_number(with_set_ids, nr) != action))
            FAIL("%s (%d): %#x and %#x", names[i], nr, run_number(plain, nr),
                 run_number(with_set_ids, nr));
    }
}

TEST(every_listed_call_has_its_action)
{
    check_names(filter_allowed, COUNT_OF(filter_allowed), FILTER_ALLOW);
    check_names(filter_denied, COUNT_OF(filter_denied), FILTER_REFUSE(EPERM));
}

TEST(unlisted_calls_do_not_exist)
{
    static const int unknown[] = { 335, 400, 423, 500, 511, 512, 547, 548, 1023, 1024, 0x3fffffff };
    static const int unlisted[] = { SYS_clone3, 452 /* fchmodat2: a mode that is not looked at */ };

    for (size_t i = 0; i < COUNT_OF(unknown); i++)
        CHECK_INT(run_number(plain, unknown[i]), FILTER_REFUSE(ENOSYS));
    for (size_t i = 0; i < COUNT_OF(unlisted); i++)
        CHECK_INT(run_number(plain, unlisted[i]), FILTER_REFUSE(ENOSYS));
}

static long new_mount_namespace(void)
{
    return syscall(SYS_unshare, CLONE_NEWNS);
}
static long new_user_namespace(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}
static long io_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}
static long chmod_set_uid(void)
{
    return syscall(SYS_fchmodat, -1, "", 04755);
}
static long chmod_plain(void)
{
    return syscall(SYS_fchmodat, -1, "", 0755);
}
static long vsock(void)
{
    return syscall(SYS_socket, 40, SOCK_STREAM, 0);
}
static long netlink_audit(void)
{
    return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 9);
}
static long unix_socket(void)
{
    return syscall(SYS_socket, DIRT | AF_UNIX, SOCK_STREAM, 0);
}
static long unknown_call(void)
{
    return syscall(1000);
}
static long personality_query(void)
{
    return syscall(SYS_personality, -1L);
}
static long others_limit(void)
{
    return syscall(SYS_prlimit64, DIRT | 1, 0, NULL, NULL);
}
static long own_limit(void)
{
    return syscall(SYS_prlimit64, DIRT, 0, NULL, NULL);
}
static long signal_pid_1(void)
{
    return syscall(SYS_kill, DIRT | 1, 0);
}
static long signal_self(void)
{
    return syscall(SYS_kill, getpid(), 0);
}
static long open_by_struct(void)
{
    return syscall(SYS_openat2, -1, "", NULL, 0);
}
static long open_with_pass(void)
{
    return sys_openat2(-1, "", 0, 0, 0);
}

/* The wait status of a child that makes the call behind the filter and exits with its errno. */
static int behind_filter(bool may_set_ids, long (*call)(void))
{
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(may_set_ids, NULL) < 0)
            _exit(255);
        _exit(call() < 0 ? errno : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(kernel_does_as_the_filter_says)
{
    enum filter { PLAIN, SET_IDS };
    static const struct {
        const char *name;
        long (*call)(void);
        enum filter filter;
        int error; /* 0: it works */
    } rows[] = {
        { "io_uring", io_uring, PLAIN, EPERM },
        { "unshare", new_mount_namespace, PLAIN, EPERM },
        { "clone", new_user_namespace, PLAIN, EPERM },
        { "chmod 04755", chmod_set_uid, PLAIN, EPERM },
        { "chmod 04755, set ids", chmod_set_uid, SET_IDS, ENOENT },
        { "chmod 0755", chmod_plain, PLAIN, ENOENT },
        { "vsock", vsock, PLAIN, EAFNOSUPPORT },
        { "netlink audit", netlink_audit, PLAIN, EPROTONOSUPPORT },
        { "unix socket", unix_socket, PLAIN, 0 },
        { "unknown call", unknown_call, PLAIN, ENOSYS },
        { "personality query", personality_query, PLAIN, 0 },
        { "another's limit", others_limit, PLAIN, EPERM },
        { "own limit", own_limit, PLAIN, 0 },
        { "openat2", open_by_struct, PLAIN, ENOSYS },
        { "openat2 with the pass", open_with_pass, PLAIN, ENOENT },
        { "kill 1", signal_pid_1, PLAIN, EPERM },
        { "kill self", signal_self, PLAIN, 0 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int status = behind_filter(rows[i].filter == SET_IDS, rows[i].call);

        if (!WIFEXITED(status) || WEXITSTATUS(status) != rows[i].error)
            FAIL("%s: status %#x, not errno %d", rows[i].name, status, rows[i].error);
    }
}

#ifdef __x86_64__
static long getpid_i386(void)
{
    long r = 20;

    __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
    return r;
}

static long getpid_x32(void)
{
    return syscall(0x40000000 | SYS_getpid);
}

TEST(other_architectures_kill)
{
    int i386 = behind_filter(false, getpid_i386);
    int x32 = behind_filter(false, getpid_x32);

    CHECK(WIFSIGNALED(x32));
    CHECK_INT(WTERMSIG(x32), SIGSYS);
    CHECK(WIFSIGNALED(i386));
    if (WTERMSIG(i386) == SIGSEGV)
        SKIP("this kernel has no 32-bit system calls");
    CHECK_INT(WTERMSIG(i386), SIGSYS);
}
#endif
