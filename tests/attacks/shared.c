/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has in common with the host and with other sandboxes: inodes, identifiers, memory,
 * processor cores. */
#include "attacks/attack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CORE_SCHEDULING = 62, CORE_CREATE = 1, MEMORY_MERGE = 67, MERGEABLE = 12 };

/* "PATH=DEV:INO,…" of the host: the same inode would carry watches, locks and leases across. */
static enum verdict system_inodes(const void *with)
{
    const char *facts = fact("ESCAPE_SYSTEM_FILES");
    char list[1024], *rest = list, *item;

    if (!facts)
        return not_applicable("ESCAPE_SYSTEM_FILES is not set");
    snprintf(list, sizeof list, "%s", facts);
    while ((item = strsep(&rest, ","))) {
        char *numbers = strchr(item, '='), *end;
        unsigned long long device, inode;
        struct stat st;

        if (!numbers)
            return escaped("ESCAPE_SYSTEM_FILES is not understood");
        *numbers++ = '\0';
        device = strtoull(numbers, &end, 10);
        inode = strtoull(end + 1, NULL, 10);
        if (stat(item, &st) == 0 && st.st_dev == device && st.st_ino == inode)
            return escaped("%s is the host's inode", item);
    }
    return held("all are of another file system");
}

static enum verdict boot_id(const void *with)
{
    const char *facts = fact("ESCAPE_BOOT_ID");
    char text[64], back[64];
    size_t n;

    if (!facts)
        return not_applicable("ESCAPE_BOOT_ID is not set");
    if (slurp("/proc/sys/kernel/random/boot_id", text, sizeof text) < 0)
        return held("it cannot be read: %m");
    n = strcspn(text, "\n");
    for (size_t i = 0; i < n; i++)
        back[i] = text[n - 1 - i];
    back[n] = '\0';
    return strcmp(back, facts) == 0 ? escaped("it is the host's") : held("it is another one");
}

/* EINVAL is the answer of a kernel that cannot, too: in a rehearsal it is not seen there. */
static enum verdict tried(int r)
{
    if (r == 0)
        return escaped("done");
    return errno == EINVAL || errno == EPERM || errno == ENODEV ? held("%m") : escaped("%m");
}

/* Pages that are merged with those of others tell by the time of a write what these have. */
static enum verdict merge_pages(const void *with)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return page == MAP_FAILED ? held("no memory") : tried(madvise(page, 4096, MERGEABLE));
}

static enum verdict merge_all(const void *with)
{
    return tried(prctl(MEMORY_MERGE, 1, 0, 0, 0));
}

/* A cookie of one's own keeps all others off the other thread of every core one runs on. */
static enum verdict own_cores(const void *with)
{
    return tried(prctl(CORE_SCHEDULING, CORE_CREATE, 0, 0, 0));
}

static const struct attack attacks[] = {
    { "inodes of system files", system_inodes, NULL, SEEN },
    { "boot id", boot_id, NULL, SEEN },
    { "merging pages with others", merge_pages, NULL, UNSEEN },   /* a kernel without KSM */
    { "merging all pages with others", merge_all, NULL, UNSEEN }, /* likewise */
    { "a core of one's own", own_cores, NULL, UNSEEN },           /* cores with one thread */
};

const struct attack_group attacks_shared = GROUP(attacks);
