/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/parts.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"

static bool is_digest(const char *s)
{
    static const char prefix[] = "sha256:";
    const char *hex = s + sizeof prefix - 1;

    return strncmp(s, prefix, sizeof prefix - 1) == 0 && strspn(hex, "0123456789abcdef") == 64 &&
           !hex[64];
}

static bool is_part(const struct part_record *p, uint32_t kind, uint64_t archive)
{
    if (!memchr(p->name, '\0', sizeof p->name) || !memchr(p->digest, '\0', sizeof p->digest))
        return false;
    if (!is_digest(p->digest) || p->at > archive || p->size > archive - p->at)
        return false;
    return kind == PARTS_ROOT ? !p->name[0] && p->at == 0 && p->size == archive : p->name[0] != 0;
}

int parts_check(const struct archive_parts *parts, size_t bytes, uint64_t archive, struct err *e)
{
    if (bytes != sizeof *parts || parts->kind == 0 || parts->kind >= PARTS_KIND_END_ ||
        parts->n > PARTS_MAX || (parts->kind == PARTS_ROOT && parts->n != 1))
        return err_set(e, ERR_UPSTREAM, "malformed list of archive parts from sandboxer-layers");
    for (size_t i = 0; i < parts->n; i++)
        if (!is_part(&parts->p[i], parts->kind, archive))
            return err_set(e, ERR_UPSTREAM, "invalid archive part from sandboxer-layers");
    return 0;
}
