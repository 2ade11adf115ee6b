/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/records.h"

#include "lib/ipc/control.h"
#include "lib/ipc/upload.h"

_Static_assert(sizeof(uint32_t) == BACKEND_CHUNK_HEAD, "a chunk's head is its length");
_Static_assert(sizeof(struct upload_head) == BACKEND_UPLOAD_HEAD &&
                   (int)UPLOAD_FILES_MAX == (int)BACKEND_UPLOAD_FILES_MAX &&
                   (int)UPLOAD_TEXT_MAX == (int)BACKEND_UPLOAD_TEXT_MAX &&
                   (int)UPLOAD_FILE == (int)BACKEND_UPLOAD_FILE &&
                   (int)UPLOAD_DATA == (int)BACKEND_UPLOAD_DATA &&
                   (int)UPLOAD_COMMIT == (int)BACKEND_UPLOAD_COMMIT,
               "one format on both sides");

enum { ENTRY_RECORD_MAX = sizeof(struct control_entry) + 2 * UINT16_MAX + CONTROL_ATTRIBUTES_MAX };
_Static_assert(sizeof(struct control_event) + CONTROL_PATH_MAX + ENTRY_RECORD_MAX <=
                   BACKEND_RECORD_MAX,
               "room for any");

ssize_t backend_entry_read(struct str in, struct backend_entry *ret)
{
    struct control_entry v;
    const char *text = in.p + sizeof v;
    size_t n;

    if (in.n < sizeof v)
        return 0;
    memcpy(&v, in.p, sizeof v);
    if (v.attributes_len > CONTROL_ATTRIBUTES_MAX)
        return -(int)ERR_INVALID;
    n = sizeof v + v.name_len + v.link_len + v.attributes_len;
    if (in.n < n)
        return 0;
    if (v.attributes_len && in.p[n - 1])
        return -(int)ERR_INVALID;
    *ret = (struct backend_entry){
        .size = v.size,
        .mtime_ns = v.mtime_ns,
        .mode = v.mode & ((1u << CONTROL_TARGET_MODE) - 1),
        .target_mode = v.mode >> CONTROL_TARGET_MODE,
        .uid = v.uid,
        .gid = v.gid,
        .nlink = v.nlink,
        .name = { text, v.name_len },
        .target = { text + v.name_len, v.link_len },
        .attributes = { text + v.name_len + v.link_len, v.attributes_len },
    };
    return (ssize_t)n;
}

ssize_t backend_change_read(struct str in, struct backend_change *ret)
{
    struct control_event v;
    const char *text = in.p + sizeof v;
    struct backend_entry entry;

    if (in.n < sizeof v)
        return 0;
    memcpy(&v, in.p, sizeof v);
    if (v.name_len > CONTROL_PATH_MAX || v.entry_len > ENTRY_RECORD_MAX)
        return -(int)ERR_INVALID;
    if (in.n < sizeof v + v.name_len + v.entry_len)
        return 0;
    *ret = (struct backend_change){ .mask = v.mask,
                                    .cookie = v.cookie,
                                    .name = { text, v.name_len },
                                    .entry = { text + v.name_len, v.entry_len } };
    if (v.entry_len && backend_entry_read(ret->entry, &entry) != (ssize_t)v.entry_len)
        return -(int)ERR_INVALID;
    return (ssize_t)(sizeof v + v.name_len + v.entry_len);
}

void backend_chunk_head(uint32_t n, char ret[static BACKEND_CHUNK_HEAD])
{
    memcpy(ret, &n, sizeof n);
}

void backend_upload_head(enum backend_upload kind, uint32_t n, char ret[static BACKEND_UPLOAD_HEAD])
{
    const struct upload_head h = { .kind = (uint32_t)kind, .size = n };

    memcpy(ret, &h, sizeof h);
}
