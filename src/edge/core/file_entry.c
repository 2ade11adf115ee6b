/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_entry.h"

#include <stdio.h>
#include <sys/stat.h>

void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT])
{
    static const char bits[] = "rwxrwxrwx";

    snprintf(ret, ENTRY_MODE_TEXT, "%c---------", S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-');
    for (unsigned i = 0; i < 9; i++)
        if (mode & (0400u >> i))
            ret[1 + i] = bits[i];
}

void entry_write_owner(struct json_writer *w, const char *key, uint32_t id)
{
    char number[16];

    snprintf(number, sizeof number, "%u", id);
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(id == 0 ? "root" : id == 1000 ? "user" : number));
}
