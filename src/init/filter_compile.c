/* Build tool: compiles filter_table.h with libseccomp into BPF programs, as a C header on stdout.
 * Run time then needs neither the library nor its 2 ms per filter. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "init/filter_table.h"

static scmp_filter_ctx ctx;

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "filter_compile: %s: %s\n", what, strerror(-r));
    exit(1);
}

static int number_of(const char *name, bool *optional)
{
    *optional = name[0] == '?';
    return seccomp_syscall_resolve_name(name + *optional);
}

static void add_list(const char *const *names, size_t n, uint32_t action)
{
    for (size_t i = 0; i < n; i++) {
        bool optional;
        int nr = number_of(names[i], &optional);

        if (nr == __NR_SCMP_ERROR && optional)
            continue;
        must(nr == __NR_SCMP_ERROR ? -EINVAL : 0, names[i]);
        if (nr < 0)
            continue; /* another architecture's */
        must(seccomp_rule_add(ctx, action, nr, 0), names[i]);
    }
}

static void add_bits(const char *name, unsigned argument, uint64_t forbidden, int error)
{
    int nr = seccomp_syscall_resolve_name(name);

    if (nr < 0)
        return;
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
                          SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, forbidden, 0)),
         name);
    for (int bit = 0; bit < 32; bit++)
        if (forbidden >> bit & 1)
            must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint16_t)error), nr, 1,
                                  SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, UINT64_C(1) << bit,
                                           UINT64_C(1) << bit)),
                 name);
}

/* New UTS namespaces need a capability that no workload has, and PID 1 tags what it starts with
 * them. */
static void add_clone(void)
{
    add_bits("clone", 0,
             CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWCGROUP,
             EPERM);
}

static bool family_allowed(int family)
{
    for (size_t i = 0; i < COUNT_OF(filter_families); i++)
        if (filter_families[i] == family)
            return true;
    return false;
}

static void add_socket(void)
{
    int nr = SCMP_SYS(socket);

    for (int family = 0; family < 64; family++) {
        if (family == AF_NETLINK)
            continue;
        must(seccomp_rule_add(
                 ctx, family_allowed(family) ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EAFNOSUPPORT), nr, 1,
                 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family)),
             "socket");
    }
    /* Route queries list the sandbox's own interfaces; the other netlink families are kernel
     * surface. */
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                          SCMP_A2(SCMP_CMP_EQ, 0)),
         "socket");
    must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), nr, 2,
                          SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, 0)),
         "socket");
}

static void add_own_limits(void)
{
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0)),
         "prlimit64");
    must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 1,
                          SCMP_A0(SCMP_CMP_NE, 0)),
         "prlimit64");
    /* PRIO_PROCESS and PRIO_PGRP; PRIO_USER would reach PID 1. */
    for (unsigned which = 0; which < 2; which++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), 1,
                              SCMP_A0(SCMP_CMP_EQ, which)),
             "setpriority");
    must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(setpriority), 1,
                          SCMP_A0(SCMP_CMP_GT, 1)),
         "setpriority");
}

static void add_personality(void)
{
    static const uint32_t harmless[] = { 0, 0x20000 /* UNAME26 */, 0xffffffff /* query */ };

    for (size_t i = 0; i < COUNT_OF(harmless); i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                              SCMP_A0(SCMP_CMP_EQ, harmless[i])),
             "personality");
}

static void build(bool may_set_ids)
{
    ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!ctx)
        must(-ENOMEM, "seccomp_init");
    must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad architecture");
    must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
    add_list(filter_allowed, COUNT_OF(filter_allowed), SCMP_ACT_ALLOW);
    add_list(filter_denied, COUNT_OF(filter_denied), SCMP_ACT_ERRNO(EPERM));
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++)
        add_bits(filter_modes[i].name, filter_modes[i].argument, may_set_ids ? 0 : 06000, EPERM);
    add_clone();
    add_socket();
    add_own_limits();
    add_personality();
}

static void print_program(const char *name)
{
    int fd = memfd_create("bpf", MFD_CLOEXEC);
    struct sock_filter one;

    must(fd < 0 ? -errno : seccomp_export_bpf(ctx, fd), "export");
    must(lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0, "rewind");
    printf("static const struct sock_filter %s[] = {\n", name);
    while (read(fd, &one, sizeof one) == (ssize_t)sizeof one)
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", one.code, one.jt, one.jf, one.k);
    printf("};\n");
    close(fd);
    seccomp_release(ctx);
}

int main(void)
{
    printf("/* Made by filter_compile.c from filter_table.h. */\n");
    build(false);
    print_program("filter_plain");
    build(true);
    print_program("filter_with_set_ids");
    return 0;
}
