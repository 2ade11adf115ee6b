/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the control plane and an egress worker: what the check passes is as good as it
 * promises. Everything lies in a heap block of just its size. */
#include <stdlib.h>
#include <string.h>

#include "engine/egress/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_who_is(const struct wire_who_is *w)
{
    must(w->known <= 1 && w->n_ancestors <= WIRE_ANCESTORS_MAX);
    must(memchr(w->binary, 0, sizeof w->binary) && memchr(w->hash, 0, sizeof w->hash));
    must(strlen(w->hash) == 0 || strlen(w->hash) == 64);
    for (size_t i = 0; i < w->n_ancestors; i++)
        must(memchr(w->ancestors[i], 0, sizeof w->ancestors[i]) && w->ancestors[i][0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1);
    struct wire_head h;
    struct err e;

    must(copy);
    memcpy(copy, data, size);
    if (wire_check(copy, size, &e) >= 0) {
        memcpy(&h, copy, sizeof h);
        must(h.size == size);
        if (h.type == WIRE_WHO_IS)
            check_who_is((const struct wire_who_is *)(const void *)copy);
        else if (h.type != WIRE_PING && h.type != WIRE_PONG) /* those are a head alone */
            must(memchr(copy + sizeof h, 0, ID_MAX) && copy[sizeof h]);
    }
    free(copy);
    return 0;
}
