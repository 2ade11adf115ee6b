/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/owner_share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "control/plane/plane.h"
#include "lib/crypto/hash.h"
#include "domain/model/owner.h"

enum {
    READABLE_MAX = 16,
    DIGEST_BYTES = 8,
    PID_MAX_DEFAULT = 32768,
    PID_MAX_TEXT = 16,
    MEMORY_PART = 2, /* of the machine, for one owner */
    PIDS_PART = 4,
};

static uint64_t read_machine_pids(void)
{
    AUTO_CLOSE int fd = open("/proc/sys/kernel/pid_max", O_RDONLY | O_CLOEXEC);
    char text[PID_MAX_TEXT];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    uint64_t ret;

    return n > 0 && str_to_u64(str_trim((struct str){ text, (size_t)n }), &ret) ? ret
                                                                                : PID_MAX_DEFAULT;
}

void owner_share_open(struct control *c)
{
    struct sysinfo info;

    if (sysinfo(&info) == 0)
        c->share.memory = (uint64_t)info.totalram * info.mem_unit / MEMORY_PART;
    c->share.pids = (uint32_t)(read_machine_pids() / PIDS_PART);
}

static char make_readable(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

void owner_share_key(const char *account, char ret[BACKEND_OWNER_MAX])
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    size_t n = 0;

    crypto_sha256(str_from(account), digest);
    ret[n++] = 'o';
    ret[n++] = '-';
    for (size_t i = 0; i < READABLE_MAX && account[i]; i++)
        ret[n++] = make_readable(account[i]);
    ret[n++] = '.';
    for (size_t i = 0; i < DIGEST_BYTES; i++, n += 2)
        snprintf(ret + n, BACKEND_OWNER_MAX - n, "%02x", digest[i]);
}

bool control_is_administrator(const struct control *c, const char *owner)
{
    return owner_is_administrator(owner, c->owner);
}

struct account account_of(const struct control *c, const char *owner, const char *family)
{
    bool admin = control_is_administrator(c, owner);
    struct account ret = { .part = admin ? STR("") : str_from(family),
                           .exempt = admin && !family[0] };

    snprintf(ret.name, sizeof ret.name, "%s%s", admin && family[0] ? "family:" : "",
             admin && family[0] ? family : owner);
    return ret;
}

bool account_is(const struct account *a, const struct account *other)
{
    return strcmp(a->name, other->name) == 0;
}

struct quota_who account_holder(const struct account *a)
{
    return (struct quota_who){ .key = str_from(a->name),
                               .parts = { a->part },
                               .privileged = a->exempt };
}

void owner_share_of(const struct control *c, const char *account, struct backend_owner *ret)
{
    *ret = (struct backend_owner){ 0 };
    owner_share_key(account, ret->key);
    if (control_is_administrator(c, account))
        return;
    ret->memory = c->config->limits.owner.memory ? c->config->limits.owner.memory : c->share.memory;
    ret->pids = c->config->limits.owner.pids ? c->config->limits.owner.pids : c->share.pids;
    ret->cpu_milli = (uint32_t)(c->config->limits.owner.cpu * 1000 + 0.5);
    ret->io = c->config->limits.owner.io;
    ret->disk = c->storage.owner_bytes;
}
