/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/passwd.h"

#include <unistd.h>

enum { FIELDS = 7 };

/* name:x:uid:gid:text:home:shell; false if the line is invalid or does not match. */
static bool read_passwd_line(struct str line, struct str name, uint32_t uid,
                             struct passwd_entry *ret)
{
    struct str field[FIELDS];
    uint64_t u, g;

    for (int i = 0; i < FIELDS; i++)
        line = str_cut(line, ':', &field[i]);
    if (!str_to_u64(field[2], &u) || !str_to_u64(field[3], &g) || u >= UINT32_MAX ||
        g >= UINT32_MAX)
        return false;
    if (name.p ? !str_eq(field[0], name) : u != uid)
        return false;
    ret->uid = (uint32_t)u;
    ret->gid = (uint32_t)g;
    return str_copy(field[0], ret->name, sizeof ret->name) &&
           str_copy(field[5], ret->home, sizeof ret->home);
}

static char text[PASSWD_MAX];

bool group_find(int fd, struct str name, uint32_t *ret)
{
    ssize_t n = read(fd, text, sizeof text);
    struct str rest = { text, n < 0 ? 0 : (size_t)n }, line, field[3];
    uint64_t gid;

    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        for (int i = 0; i < 3; i++) /* name:x:gid:members */
            line = str_cut(line, ':', &field[i]);
        if (str_eq(field[0], name) && str_to_u64(field[2], &gid) && gid < UINT32_MAX) {
            *ret = (uint32_t)gid;
            return true;
        }
    }
    return false;
}

bool passwd_find(int fd, struct str name, uint32_t uid, struct passwd_entry *ret)
{
    ssize_t n = read(fd, text, sizeof text);
    struct str rest = { text, n < 0 ? 0 : (size_t)n }, line;

    while (rest.n) {
        struct passwd_entry found = { 0 };

        rest = str_cut(rest, '\n', &line);
        if (read_passwd_line(line, name, uid, &found)) {
            *ret = found;
            return true;
        }
    }
    return false;
}
