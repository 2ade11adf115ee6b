/* /etc of a sandbox on the host's system: generated, copied or bound entry by entry from a list.
 * What is not on the list does not exist inside, so no secret of the host can be forgotten there.
 */
#include "runtime/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "runtime/mounts.h"

enum { COPY_MAX = 1 << 20 };

static const char *const copied[] = {
    "ld.so.conf",
    "protocols",
    "ssl/openssl.cnf",
};

static const char *const bound[] = {
    "ld.so.cache", "services",        "alternatives",    "ssl/certs",
    "fonts",       "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
};

static const struct {
    const char *name, *target;
} linked[] = {
    { "etc/mtab", "../proc/self/mounts" },
    { "etc/os-release", "../usr/lib/os-release" },
};

static int write_etc(int root, const char *path, const char *text, struct err *e)
{
    AUTO_CLOSE int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    size_t n = strlen(text);

    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        return err_sys(e, "writing /%s", path);
    return 0;
}

static int generate_users(const struct build *b, struct err *e)
{
    char passwd[512], group[256];
    size_t n, g;
    uint32_t uid = b->plan->uid, gid = b->plan->gid;
    int r;

    n = (size_t)snprintf(passwd, sizeof passwd,
                         "root:x:0:0:root:/root:/bin/sh\n"
                         "user:x:1000:1000:user:/home/user:/bin/bash\n"
                         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    g = (size_t)snprintf(group, sizeof group,
                         "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n");
    if (uid != 0 && uid != 1000 && uid != 65534)
        snprintf(passwd + n, sizeof passwd - n, "sandbox:x:%u:%u:sandbox:/tmp:/bin/sh\n", uid, gid);
    if (gid != 0 && gid != 5 && gid != 1000 && gid != 65534)
        snprintf(group + g, sizeof group - g, "sandbox:x:%u:\n", gid);
    r = write_etc(b->root, "etc/passwd", passwd, e);
    return r < 0 ? r : write_etc(b->root, "etc/group", group, e);
}

/* Each sandbox is a machine of its own to programs that ask: the id's characters as hex digits. */
static void machine_id(const char *id, char out[static 40])
{
    uint64_t hash[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };

    for (const char *p = id; *p; p++)
        for (int i = 0; i < 2; i++)
            hash[i] = (hash[i] ^ (unsigned char)*p) * (UINT64_C(0x100000001b3) + (uint64_t)i * 2);
    snprintf(out, 40, "%016llx%016llx\n", (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

static int generate_names(const struct build *b, struct err *e)
{
    char hosts[256], hostname[80], machine[40];
    int r;

    snprintf(hosts, sizeof hosts, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n",
             b->plan->hostname);
    snprintf(hostname, sizeof hostname, "%s\n", b->plan->hostname);
    machine_id(b->plan->id, machine);
    r = write_etc(b->root, "etc/hosts", hosts, e);
    if (r >= 0)
        r = write_etc(b->root, "etc/hostname", hostname, e);
    if (r >= 0)
        r = write_etc(b->root, "etc/machine-id", machine, e);
    if (r >= 0)
        r = write_etc(b->root, "etc/nsswitch.conf",
                      "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: "
                      "files\n",
                      e);
    return r < 0
               ? r
               : write_etc(
                     b->root, "etc/resolv.conf",
                     b->plan->flags & PLAN_EGRESS ? "nameserver " LISTENERS_RESOLVER "\n" : "", e);
}

static int copy_file(const struct build *b, const char *name, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    char path[64];
    struct stat st;

    snprintf(path, sizeof path, "/etc/%s", name);
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > COPY_MAX)
        return 0; /* not on this host */
    to = openat(b->root, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (to < 0)
        return err_sys(e, "making %s", path);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);

        if (n <= 0)
            return err_sys(e, "copying %s", path);
        left -= n;
    }
    return 0;
}

static int copy_timezone(const struct build *b, struct err *e)
{
    char target[128];
    ssize_t n = readlink("/etc/localtime", target, sizeof target - 1);

    if (n <= 0)
        return 0;
    target[n] = '\0';
    if (strncmp(target, "/usr/share/zoneinfo/", 20) != 0)
        return 0;
    return symlinkat(target, b->root, "etc/localtime") < 0 ? err_sys(e, "making /etc/localtime")
                                                           : 0;
}

static int bind_entry(const struct build *b, const char *name, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    char path[64];
    struct stat st;
    int r;

    snprintf(path, sizeof path, "/etc/%s", name);
    if (lstat(path, &st) < 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return 0;
    r = mounts_copy(AT_FDCWD, path, &tree, e);
    if (r >= 0)
        r = mounts_restrict(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY,
                            b->is_root ? b->identity.userns : -1, e);
    if (r >= 0 && (S_ISDIR(st.st_mode) ? mkdirat(b->root, path + 1, 0755)
                                       : mknodat(b->root, path + 1, S_IFREG | 0644, 0)) < 0)
        r = err_sys(e, "making %s", path);
    return r < 0 ? r : mounts_attach_known(tree, b->root, path + 1, e);
}

static int fill_etc(const struct build *b, struct err *e)
{
    int r = generate_users(b, e);

    if (r >= 0)
        r = generate_names(b, e);
    if (r >= 0 && mkdirat(b->root, "etc/ssl", 0755) < 0)
        r = err_sys(e, "making /etc/ssl");
    if (r >= 0)
        r = copy_timezone(b, e);
    for (size_t i = 0; i < COUNT_OF(linked) && r >= 0; i++)
        if (symlinkat(linked[i].target, b->root, linked[i].name) < 0)
            r = err_sys(e, "making /%s", linked[i].name);
    for (size_t i = 0; i < COUNT_OF(copied) && r >= 0; i++)
        r = copy_file(b, copied[i], e);
    for (size_t i = 0; i < COUNT_OF(bound) && r >= 0; i++)
        r = bind_entry(b, bound[i], e);
    return r;
}

int rootfs_etc(struct build *b, struct err *e)
{
    int r;

    if (b->plan->n_layers)
        return 0;
    setfsgid(b->self);
    setfsuid(b->self);
    r = fill_etc(b, e);
    setfsuid(0);
    setfsgid(0);
    return r;
}
