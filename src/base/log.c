#include "base/log.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { LINE_MAX_BYTES = 4096 };

static enum log_level most_ = LOG_WARN;
static enum log_format format_ = LOG_PLAIN;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_setup(enum log_level most, enum log_format format)
{
    most_ = most;
    format_ = format;
}

void log_printable(struct str s, char *out, size_t cap)
{
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;

    for (size_t i = 0; i < s.n && at + 5 < cap; i++) {
        unsigned char c = (unsigned char)s.p[i];

        /* C1 controls hide in UTF-8 as C2 80 … C2 9F: terminals act on them. */
        bool c1 = c == 0xC2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xA0;

        if ((c >= 0x20 && c != 0x7F && !c1 && c != '\\') || (c >= 0x80 && !c1)) {
            out[at++] = (char)c;
            continue;
        }
        if (c1) {
            i++;
            c = (unsigned char)s.p[i];
        }
        out[at++] = '\\';
        out[at++] = 'x';
        out[at++] = hex[c >> 4];
        out[at++] = hex[c & 15];
    }
    if (cap)
        out[at] = '\0';
}

static void add_value(struct buf *b, struct str s, bool json)
{
    static const char hex[] = "0123456789abcdef";
    char shown[1024];

    if (!json) {
        log_printable(s, shown, sizeof shown);
        buf_add(b, str_from(shown));
        return;
    }
    buf_add_c(b, '"');
    for (size_t i = 0; i < s.n && i < sizeof shown; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c == '"' || c == '\\') {
            buf_add_c(b, '\\');
            buf_add_c(b, (char)c);
        } else if (c < 0x20 || c >= 0x7F) {
            char u[7] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0' };

            buf_add(b, str_from(u));
        } else {
            buf_add_c(b, (char)c);
        }
    }
    buf_add_c(b, '"');
}

static void add_time(struct buf *b)
{
    int64_t now = clock_wall();
    time_t s = (time_t)(now / NS_PER_S);
    struct tm tm;
    char text[32];

    gmtime_r(&s, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(b, "%s.%03dZ", text, (int)(now / NS_PER_MS % 1000));
}

void log_write_(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    struct buf b = BUF_INIT(LINE_MAX_BYTES);
    bool json = format_ == LOG_JSON;

    if (level > most_)
        return;
    buf_addf(&b, json ? "{\"time\":\"" : "");
    add_time(&b);
    buf_addf(&b, json ? "\",\"level\":\"%s\",\"event\":\"%s\"" : " %s %s", level_names[level],
             event);
    for (size_t i = 0; i < n; i++) {
        if (!fields[i].key)
            continue;
        buf_addf(&b, json ? ",\"%s\":" : " %s=", fields[i].key);
        if (fields[i].is_number)
            buf_addf(&b, "%lld", (long long)fields[i].number);
        else
            add_value(&b, fields[i].text, json);
    }
    buf_addf(&b, json ? "}\n" : "\n");
    if (write(STDERR_FILENO, b.p, b.n) < 0) {
        /* Nobody left to tell. */
    }
    buf_done(&b);
}
