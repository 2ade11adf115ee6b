/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/attack_bait.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"

#define VICTIM_TEXT "unharmed\n"
#define MACHINE_ID  "/etc/machine-id"

static const char *const host_dirs[] = { "/",    "/root", "/home",    "/var",     "/etc", "/tmp",
                                         "/run", "/dev",  "/dev/shm", "/dev/pts", "/opt" };
static const char *const system_files[] = { "/usr/bin/env", "/usr/bin/sh", "/etc/services",
                                            "/etc/ld.so.cache" };
static const char *const namespaces[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup" };

static void add_fact(struct attack_bait *b, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_fact(struct attack_bait *b, const char *name, const char *fmt, ...)
{
    va_list ap;
    char *fact;
    int n;

    if (b->n_facts >= BAIT_FACTS_MAX)
        return;
    fact = b->facts[b->n_facts];
    n = snprintf(fact, BAIT_FACT_MAX, "%s=", name);
    va_start(ap, fmt);
    vsnprintf(fact + n, BAIT_FACT_MAX - (size_t)n, fmt, ap);
    va_end(ap);
    b->n_facts++;
}

/* --- files --- */

static int write_bait_file(const char *dir, const char *name, mode_t mode, const char *text,
                           struct err *e)
{
    char path[160];
    AUTO_CLOSE int fd = -1;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0 || fchmod(fd, mode) < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(e, "cannot write %s", path);
    return 0;
}

static int copy_program(const struct attack_bait *b, const char *program, struct err *e)
{
    char path[160];
    AUTO_CLOSE int from = open(program, O_RDONLY | O_CLOEXEC), to = -1;
    struct stat st;
    off_t done = 0;

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "cannot open %s", program);
    snprintf(path, sizeof path, "%s/attacks", b->dir);
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
    if (to < 0 || fchmod(to, 0755) < 0)
        return err_sys(e, "cannot write %s", path);
    while (done < st.st_size) {
        if (sendfile(to, from, &done, (size_t)(st.st_size - done)) <= 0)
            return err_sys(e, "cannot copy %s to %s", program, path);
    }
    return 0;
}

static int make_bait_directory(char *path, size_t size, struct err *e)
{
    snprintf(path, size, "/tmp/sandboxer-selftest-XXXXXX");
    if (!mkdtemp(path)) {
        path[0] = '\0';
        return err_sys(e, "cannot make a directory in /tmp");
    }
    if (chmod(path, 0755) < 0)
        return err_sys(e, "cannot change the mode of %s", path);
    return 0;
}

/* --- sockets and shared memory --- */

static int listen_tcp_bait(struct attack_bait *b, struct err *e)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t n = sizeof at;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (b->tcp < 0 || bind(b->tcp, (struct sockaddr *)&at, n) < 0 || listen(b->tcp, 8) < 0 ||
        getsockname(b->tcp, (struct sockaddr *)&at, &n) < 0)
        return err_sys(e, "cannot listen on loopback");
    add_fact(b, "ESCAPE_PORT", "%u", ntohs(at.sin_port));
    return 0;
}

static int listen_unix_bait(const char *name, bool abstract, int *ret, struct err *e)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    size_t n = strlen(name);

    memcpy(at.sun_path + abstract, name, n);
    *ret = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*ret < 0 ||
        bind(*ret, (struct sockaddr *)&at,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + abstract)) < 0 ||
        listen(*ret, 8) < 0)
        return err_sys(e, "cannot listen on the socket %s", name);
    return 0;
}

static int lay_sockets(struct attack_bait *b, struct err *e)
{
    char name[64], path[96];
    int r = listen_tcp_bait(b, e);

    snprintf(name, sizeof name, "sandboxer-selftest-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/socket", b->scratch);
    if (r >= 0)
        r = listen_unix_bait(name, true, &b->abstract, e);
    if (r >= 0)
        r = listen_unix_bait(path, false, &b->named, e);
    if (r < 0)
        return r;
    if (chmod(path, 0777) < 0)
        return err_sys(e, "cannot change the mode of %s", path);
    add_fact(b, "ESCAPE_ABSTRACT", "%s", name);
    add_fact(b, "ESCAPE_UNIX_PATH", "%s", path);
    return 0;
}

/* --- facts about the machine --- */

/* Values that must not be found inside are passed reversed, so that passing them is not a find
 * itself. */
static void add_reversed(struct attack_bait *b, const char *name, char *text)
{
    size_t n = strcspn(text, "\n");

    text[n] = '\0';
    for (size_t i = 0; i < n / 2; i++) {
        char c = text[i];

        text[i] = text[n - 1 - i];
        text[n - 1 - i] = c;
    }
    if (n)
        add_fact(b, name, "%s", text);
}

/* Writes "PATH=DEV:INO,…" of the files of this kind that exist. */
static void list_inodes(const char *const *paths, size_t count, mode_t type, char *list, size_t cap)
{
    struct stat st;
    size_t n = 0;

    list[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (stat(paths[i], &st) == 0 && (st.st_mode & S_IFMT) == type && n + 96 < cap)
            n += (size_t)snprintf(list + n, cap - n, "%s%s=%llu:%llu", n ? "," : "", paths[i],
                                  (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
}

static void note_system_files(struct attack_bait *b)
{
    char list[BAIT_FACT_MAX - 64];

    list_inodes(system_files, COUNT_OF(system_files), S_IFREG, list, sizeof list);
    if (list[0])
        snprintf(b->system_files, sizeof b->system_files, "ESCAPE_SYSTEM_FILES=%s", list);
}

static void add_directories(struct attack_bait *b)
{
    char list[BAIT_FACT_MAX - 64];
    struct stat st;

    list_inodes(host_dirs, COUNT_OF(host_dirs), S_IFDIR, list, sizeof list);
    add_fact(b, "ESCAPE_HOST_DIRS", "%s", list);
    if (stat("/", &st) == 0)
        add_fact(b, "ESCAPE_ROOT_DEVICE", "%u:%u", major(st.st_dev), minor(st.st_dev));
}

/* The contents of a file that names this machine, if there is one. */
static void add_identifier(struct attack_bait *b, const char *name, const char *path)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[128];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n > 0) {
        text[n] = '\0';
        add_reversed(b, name, text);
    }
}

static void add_machine(struct attack_bait *b)
{
    char text[128], path[64], name[64];
    struct stat st;

    add_identifier(b, "ESCAPE_MACHINE_ID", MACHINE_ID);
    add_identifier(b, "ESCAPE_BOOT_ID", "/proc/sys/kernel/random/boot_id");
    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = '\0';
        add_fact(b, "ESCAPE_HOSTNAME", "%s", text);
    }
    for (size_t i = 0; i < COUNT_OF(namespaces); i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        snprintf(name, sizeof name, "ESCAPE_NS_%s", namespaces[i]);
        if (stat(path, &st) == 0)
            add_fact(b, name, "%llu", (unsigned long long)st.st_ino);
    }
}

int attack_bait_lay(struct attack_bait *b, const char *program, struct err *e)
{
    key_t key = (key_t)(0x5a000000 + getpid());
    int r = make_bait_directory(b->dir, sizeof b->dir, e);

    if (r >= 0)
        r = make_bait_directory(b->scratch, sizeof b->scratch, e);
    if (r >= 0)
        r = copy_program(b, program, e);
    if (r >= 0)
        r = write_bait_file(b->dir, "victim", 0666, VICTIM_TEXT, e);
    if (r >= 0)
        r = write_bait_file(b->scratch, "hostfile", 0644, "of the host\n", e);
    if (r >= 0)
        r = lay_sockets(b, e);
    if (r < 0)
        return r;
    b->segment = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666);
    if (b->segment >= 0) /* without SysV IPC there is no segment to find */
        add_fact(b, "ESCAPE_SHM_KEY", "%d", (int)key);
    add_fact(b, "ESCAPE_CONFINED", "1");
    add_fact(b, "ESCAPE_HOST_FILE", "%s/hostfile", b->scratch);
    add_directories(b);
    note_system_files(b);
    add_machine(b);
    return 0;
}

static void remove_dir(const char *dir, const char *const *names, size_t n)
{
    char path[160];

    for (size_t i = 0; dir[0] && i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    if (dir[0])
        rmdir(dir);
}

void attack_bait_remove(struct attack_bait *b)
{
    static const char *const mounted[] = { "attacks", "victim" };
    static const char *const kept[] = { "socket", "hostfile" };

    drop_fd(&b->tcp);
    drop_fd(&b->abstract);
    drop_fd(&b->named);
    if (b->segment >= 0)
        shmctl(b->segment, IPC_RMID, NULL);
    remove_dir(b->dir, mounted, COUNT_OF(mounted));
    remove_dir(b->scratch, kept, COUNT_OF(kept));
    *b = ATTACK_BAIT_NONE;
}

bool attack_bait_unharmed(const struct attack_bait *b)
{
    char path[160], text[sizeof VICTIM_TEXT + 1] = "";
    AUTO_CLOSE int fd = -1;

    snprintf(path, sizeof path, "%s/victim", b->dir);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof text - 1) == sizeof VICTIM_TEXT - 1 &&
           strcmp(text, VICTIM_TEXT) == 0;
}
