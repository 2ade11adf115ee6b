/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/caps.h"

#include <errno.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const names[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

enum { CAP_COUNT = sizeof names / sizeof names[0], CAP_KERNEL_MAX = 63 };

uint64_t caps_permitted(void)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &head, data) < 0)
        return 0;
    return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

int caps_set(uint64_t mask, uint64_t inheritable, struct err *e)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];

    mask &= caps_permitted();
    inheritable &= mask;
    for (int i = 0; i < 2; i++)
        data[i] =
            (struct __user_cap_data_struct){ .effective = (uint32_t)(mask >> (32 * i)),
                                             .permitted = (uint32_t)(mask >> (32 * i)),
                                             .inheritable = (uint32_t)(inheritable >> (32 * i)) };
    if (syscall(SYS_capset, &head, data) < 0)
        return err_sys(e, "setting capabilities");
    return 0;
}

int caps_bound(uint64_t have, uint64_t keep, struct err *e)
{
    for (int cap = 0; cap <= CAP_KERNEL_MAX; cap++) {
        if (!(have & ~keep & CAP_BIT(cap)))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            return 0; /* above the kernel's last capability */
        return err_sys(e, "dropping capability %d from the bounding set", cap);
    }
    return 0;
}

int caps_ambient(uint64_t mask, struct err *e)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return err_sys(e, "clearing ambient capabilities");
    for (int cap = 0; mask >> cap; cap++)
        if ((mask & CAP_BIT(cap)) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return err_sys(e, "raising ambient capability %d", cap);
    return 0;
}

bool caps_from_name(struct str name, int *ret)
{
    if (name.n > 4 && strncasecmp(name.p, "CAP_", 4) == 0)
        name = (struct str){ name.p + 4, name.n - 4 };
    for (int i = 0; i < CAP_COUNT; i++)
        if (strlen(names[i]) == name.n && strncasecmp(names[i], name.p, name.n) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

const char *caps_name(int cap)
{
    return cap >= 0 && cap < CAP_COUNT ? names[cap] : "unknown";
}
