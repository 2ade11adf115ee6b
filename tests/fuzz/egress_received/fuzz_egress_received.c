/* SPDX-License-Identifier: Apache-2.0 */
/* What comes to a worker with POLICY and TEXTS: a policy that decides, or a reason, and every
 * descriptor is closed once. The first byte says which message and what it announces, the second
 * how many descriptors come; texts end with a 0xff. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/received.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IS_TEXTS = 1, HAS_FILE = 2, HAS_ALLOW = 4, CAME_MAX = 3, GENERATION = 9 };

static void must(bool good)
{
    if (!good)
        abort();
}

static int memory_with(struct str text)
{
    int fd = memfd_create("text", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n);
    return fd;
}

static int receive(uint8_t kind, const struct ipc_fds *fds, struct egress_snapshot **ret,
                   struct err *e)
{
    struct wire_box box = { .id = "sbx_a", .generation = GENERATION };
    struct wire_texts texts = { .id = "sbx_a",
                                .generation = GENERATION,
                                .has_file = kind & HAS_FILE,
                                .has_allow = kind & HAS_ALLOW,
                                .name = "policy.yaml" };

    return kind & IS_TEXTS ? received_texts(&texts, fds, ret, e)
                           : received_policy(&box, fds, ret, e);
}

/* A policy in force answers, whatever it is. */
static void ask(const struct egress_snapshot *s)
{
    struct egress_connect_query place = { .host = STR("a.example"), .port = 443 };
    struct egress_match match;
    struct egress_reason why;

    must(egress_snapshot_generation(s) == GENERATION);
    (void)egress_connect(s, &place, &match, &why);
    must(why.code && *why.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(ipc_fds_done) struct ipc_fds fds = { .n = 0 };
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct str rest, text;
    struct err e = { 0 };

    if (size < 2)
        return 0;
    rest = (struct str){ (const char *)data + 2, size - 2 };
    for (size_t i = 0; i < data[1] % (CAME_MAX + 1u); i++) {
        rest = str_cut(rest, (char)0xff, &text);
        fds.fd[fds.n++] = memory_with(text);
    }
    if (receive(data[0], &fds, &s, &e) >= 0)
        ask(s);
    else
        must(!s && e.msg[0]);
    return 0;
}
