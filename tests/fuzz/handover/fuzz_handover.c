/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with files: of a client to the supervisor (lib/ipc/handover.h), and of the supervisor to a
 * launcher (engine/runtime/granted.h). The first byte is the kind, the second the number of
 * descriptors; the rest is the message. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/runtime/granted.h"
#include "lib/ipc/credentials.h"

enum { KIND_HANDOVER, KIND_GRANTED, KINDS, FDS = HANDOVER_FILES_MAX + 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_handover(int sock)
{
    struct handover h AUTO(handover_done) = { .n = 0 };

    if (handover_take(sock, false, &h, NULL) < 0)
        return;
    must(h.n > 0 && h.n <= HANDOVER_FILES_MAX && h.uid == geteuid());
    must(h.file[0].use == HANDOVER_WORKSPACE || h.n <= HANDOVER_MOUNTS_MAX);
    for (size_t i = 0; i < h.n; i++) {
        must(h.fd[i] >= 0 && strnlen(h.file[i].target, HANDOVER_TARGET_MAX) < HANDOVER_TARGET_MAX);
        must(h.file[i].use == HANDOVER_MOUNT || (h.file[i].use == HANDOVER_WORKSPACE && i == 0));
    }
}

static void check_granted(int sock)
{
    struct granted g AUTO(granted_done) = { .n = 0 };

    if (granted_receive(sock, 0, &g, NULL) < 0)
        return;
    must(g.n > 0 && g.n <= GRANTED_MAX && strnlen(g.id, ID_MAX) < ID_MAX);
    for (size_t i = 0; i < g.n; i++)
        must(g.fd[i] >= 0 && g.file[i].is_dir <= 1 &&
             strnlen(g.file[i].target, PLAN_TARGET_MAX) < PLAN_TARGET_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct credentials self = credentials_own();
    AUTO_CLOSE int dir = -1, sock = -1;
    int fds[FDS];

    if (size < 3)
        return 0;
    dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < FDS; i++)
        fds[i] = dir;
    if (credentials_send(&self, data + 2, size - 2, fds, data[1] % FDS, &sock, NULL) < 0)
        return 0;
    if (data[0] % KINDS == KIND_HANDOVER)
        check_handover(sock);
    else
        check_granted(sock);
    return 0;
}
