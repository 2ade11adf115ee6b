/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gate/bpf.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

enum { LOG_BYTES = 64 << 10, LOG_SHOWN = 120 };

static long call_bpf(enum bpf_cmd command, union bpf_attr *a)
{
    return syscall(SYS_bpf, command, a, sizeof *a);
}

static uint64_t to_u64(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

int bpf_hash_make(const char *name, size_t key_size, uint32_t entries, int *ret, struct err *e)
{
    union bpf_attr a;
    long fd;

    memset(&a, 0, sizeof a);
    a.map_type = BPF_MAP_TYPE_HASH;
    a.key_size = (uint32_t)key_size;
    a.value_size = sizeof(uint32_t);
    a.max_entries = entries;
    a.map_flags = BPF_F_NO_PREALLOC | BPF_F_RDONLY_PROG;
    snprintf(a.map_name, sizeof a.map_name, "%s", name);
    fd = call_bpf(BPF_MAP_CREATE, &a);
    if (fd < 0)
        return err_sys(e, "making BPF map %s", name);
    *ret = (int)fd;
    return 0;
}

int bpf_key_add(int map, const void *key, struct err *e)
{
    const uint32_t one = 1;
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.map_fd = (uint32_t)map;
    a.key = to_u64(key);
    a.value = to_u64(&one);
    a.flags = BPF_ANY;
    if (call_bpf(BPF_MAP_UPDATE_ELEM, &a) == 0)
        return 0;
    if (errno == E2BIG)
        return err_set(e, ERR_TOO_BIG, "the BPF map of granted addresses is full");
    return err_sys(e, "adding to a BPF map");
}

void bpf_key_remove(int map, const void *key)
{
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.map_fd = (uint32_t)map;
    a.key = to_u64(key);
    (void)call_bpf(BPF_MAP_DELETE_ELEM, &a);
}

static long try_load(const struct bpf_insn *text, size_t n, enum bpf_attach_type where, char *log,
                     uint32_t log_size)
{
    static const char license[] = ""; /* no helper that it calls needs one */
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.prog_type = BPF_PROG_TYPE_CGROUP_SOCK_ADDR;
    a.expected_attach_type = where;
    a.insns = to_u64(text);
    a.insn_cnt = (uint32_t)n;
    a.license = to_u64(license);
    a.log_level = log ? 1 : 0;
    a.log_buf = to_u64(log);
    a.log_size = log_size;
    snprintf(a.prog_name, sizeof a.prog_name, "sandboxer_gate");
    return call_bpf(BPF_PROG_LOAD, &a);
}

/* The last lines name the instruction and what is wrong with it; line ends become blanks. */
static const char *tail_of(char *log)
{
    size_t n = strlen(log);

    for (char *p = log; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return n > LOG_SHOWN ? log + n - LOG_SHOWN : log;
}

int bpf_load(const struct bpf_insn *text, size_t n, enum bpf_attach_type where, int *ret,
             struct err *e)
{
    AUTO_FREE char *log = NULL;
    long fd = try_load(text, n, where, NULL, 0);
    int why = errno;

    if (fd >= 0) {
        *ret = (int)fd;
        return 0;
    }
    log = new0(LOG_BYTES);
    if (why == EINVAL || why == EACCES) { /* the verifier's answers: again, with its log */
        fd = try_load(text, n, where, log, LOG_BYTES);
        if (fd >= 0)
            close((int)fd);
    }
    errno = why;
    if (!log[0])
        return err_sys(e, "loading the BPF program");
    return err_sys(e, "loading the BPF program (verifier: %s)", tail_of(log));
}

int bpf_attach(int program, int group, enum bpf_attach_type where, struct err *e)
{
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.target_fd = (uint32_t)group;
    a.attach_bpf_fd = (uint32_t)program;
    a.attach_type = where;
    a.attach_flags = BPF_F_ALLOW_MULTI;
    return call_bpf(BPF_PROG_ATTACH, &a) < 0 ? err_sys(e, "attaching a BPF program to a cgroup")
                                             : 0;
}
