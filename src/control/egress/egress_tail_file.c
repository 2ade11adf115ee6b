/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_tail_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_ = 8192, HEAD = 64, SEEK_BYTES = 2 * LINE_MAX_ };

/* The number after a key; false: no such key. Texts from outside have their quotation marks escaped
 * in a line, so they cannot look like a key. */
static bool parse_number_after(struct str line, struct str key, uint64_t *ret)
{
    const char *at = line.n ? memmem(line.p, line.n, key.p, key.n) : NULL;
    struct str rest, digits;

    if (!at)
        return false;
    rest = (struct str){ at + key.n, line.n - (size_t)(at - line.p) - key.n };
    str_cut(rest, ',', &digits);
    return str_to_u64(digits, ret);
}

int64_t egress_tail_line_time(struct str line)
{
    const struct str begin = STR("{\"time\":");
    uint64_t ms;

    if (line.n > HEAD)
        line.n = HEAD;
    if (line.n < begin.n || memcmp(line.p, begin.p, begin.n) != 0 ||
        !parse_number_after(line, begin, &ms) || ms > INT64_MAX)
        return -1;
    return (int64_t)ms;
}

bool egress_tail_line_kind(struct str line, enum egress_tail_kind *ret)
{
    uint64_t action, type;

    if (!parse_number_after(line, STR(",\"action_id\":"), &action) ||
        !parse_number_after(line, STR(",\"type_uid\":"), &type))
        return false;
    *ret = action == 2      ? EGRESS_TAIL_DENIED
           : type == 400102 ? EGRESS_TAIL_CLOSED
                            : EGRESS_TAIL_ALLOWED;
    return true;
}

int64_t egress_tail_file_name(int fd)
{
    char head[HEAD];
    ssize_t n = pread(fd, head, sizeof head, 0);
    int64_t ms = n > 0 ? egress_tail_line_time((struct str){ head, (size_t)n }) : 0;

    return ms < 0 ? 0 : ms;
}

/* The first line that begins after `at`: its offset and time. */
static bool find_line_after(int fd, int64_t at, int64_t *ret_at, int64_t *ret_ms)
{
    char piece[SEEK_BYTES];
    ssize_t n = pread(fd, piece, sizeof piece, at);
    struct str text = { piece, n > 0 ? (size_t)n : 0 };
    size_t end = str_find(text, '\n');

    if (end + 1 >= text.n)
        return false;
    *ret_at = at + (int64_t)end + 1;
    *ret_ms = egress_tail_line_time((struct str){ piece + end + 1, text.n - end - 1 });
    return *ret_ms >= 0;
}

int64_t egress_tail_file_seek(int fd, int64_t ms)
{
    struct stat st;
    int64_t low = 0, high = fstat(fd, &st) == 0 ? st.st_size : 0;

    while (high - low > SEEK_BYTES) {
        int64_t middle = low + (high - low) / 2, at, time;

        if (find_line_after(fd, middle, &at, &time) && at < high && time < ms)
            low = at;
        else
            high = middle;
    }
    return low;
}

size_t egress_tail_file_read(int fd, int64_t *at, char *piece, size_t cap)
{
    ssize_t n = pread(fd, piece, cap, *at);
    const char *last = n > 0 ? memrchr(piece, '\n', (size_t)n) : NULL;

    if (!last && n == (ssize_t)cap)
        *at += n;
    return last ? (size_t)(last - piece) + 1 : 0;
}
