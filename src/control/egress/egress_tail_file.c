#include "control/feed_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_ = 8192, HEAD = 64, LOOK = 2 * LINE_MAX_ };

/* The digits behind a key; false: it is not there. Text from outside has its quotation marks
 * escaped in a line, so it cannot pass for a key. */
static bool number_of(struct str line, struct str key, uint64_t *ret)
{
    const char *at = line.n ? memmem(line.p, line.n, key.p, key.n) : NULL;
    struct str rest, digits;

    if (!at)
        return false;
    rest = (struct str){ at + key.n, line.n - (size_t)(at - line.p) - key.n };
    str_cut(rest, ',', &digits);
    return str_to_u64(digits, ret);
}

int64_t feed_line_time(struct str line)
{
    const struct str begin = STR("{\"time\":");
    uint64_t ms;

    if (line.n > HEAD)
        line.n = HEAD;
    if (line.n < begin.n || memcmp(line.p, begin.p, begin.n) != 0 || !number_of(line, begin, &ms) ||
        ms > INT64_MAX)
        return -1;
    return (int64_t)ms;
}

bool feed_line_kind(struct str line, enum feed_kind *ret)
{
    uint64_t action, type;

    if (!number_of(line, STR(",\"action_id\":"), &action) ||
        !number_of(line, STR(",\"type_uid\":"), &type))
        return false;
    *ret = action == 2 ? FEED_DENIED : type == 400102 ? FEED_CLOSED : FEED_ALLOWED;
    return true;
}

int64_t feed_file_name(int fd)
{
    char head[HEAD];
    ssize_t n = pread(fd, head, sizeof head, 0);
    int64_t ms = n > 0 ? feed_line_time((struct str){ head, (size_t)n }) : 0;

    return ms < 0 ? 0 : ms;
}

/* The first line that begins behind `at`: its place and time. */
static bool line_behind(int fd, int64_t at, int64_t *ret_at, int64_t *ret_ms)
{
    char piece[LOOK];
    ssize_t n = pread(fd, piece, sizeof piece, at);
    struct str text = { piece, n > 0 ? (size_t)n : 0 };
    size_t end = str_find(text, '\n');

    if (end + 1 >= text.n)
        return false;
    *ret_at = at + (int64_t)end + 1;
    *ret_ms = feed_line_time((struct str){ piece + end + 1, text.n - end - 1 });
    return *ret_ms >= 0;
}

int64_t feed_file_seek(int fd, int64_t ms)
{
    struct stat st;
    int64_t low = 0, high = fstat(fd, &st) == 0 ? st.st_size : 0;

    while (high - low > LOOK) {
        int64_t middle = low + (high - low) / 2, at, time;

        if (line_behind(fd, middle, &at, &time) && at < high && time < ms)
            low = at;
        else
            high = middle;
    }
    return low;
}

size_t feed_file_read(int fd, int64_t *at, char *piece, size_t cap)
{
    ssize_t n = pread(fd, piece, cap, *at);
    const char *last = n > 0 ? memrchr(piece, '\n', (size_t)n) : NULL;

    if (!last && n == (ssize_t)cap)
        *at += n;
    return last ? (size_t)(last - piece) + 1 : 0;
}
