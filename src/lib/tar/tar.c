/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/tar.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"

/* The POSIX layout of a header block. Text fields end with NUL only if there is room. */
struct block {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[8]; /* with the version */
    char uname[32];
    char gname[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char unused[12];
};
_Static_assert(sizeof(struct block) == TAR_BLOCK, "the layout is the format");

#define POSIX_MAGIC "ustar\00000" /* "ustar", NUL, "00" */

/* The largest octal values that fit with a NUL into fields of 8 and of 12 bytes. */
#define OCTAL_7  INT64_C(07777777)
#define OCTAL_11 INT64_C(077777777777)

enum { BASE_256 = 0x80, BASE_256_NEGATIVE = 0xFF };

static const struct {
    char flag;
    const char *name;
} types[TAR_TYPE_COUNT_] = {
    [TAR_FILE] = { '0', "file" },
    [TAR_HARDLINK] = { '1', "hard link" },
    [TAR_SYMLINK] = { '2', "symbolic link" },
    [TAR_CHAR] = { '3', "character device" },
    [TAR_BLOCKDEV] = { '4', "block device" },
    [TAR_DIR] = { '5', "directory" },
    [TAR_FIFO] = { '6', "fifo" },
};

const char *tar_type_name(enum tar_type type)
{
    return types[type].name;
}

bool tar_is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != '\0')
            return false;
    return true;
}

size_t tar_padding(uint64_t n)
{
    return (size_t)((TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK);
}

static int number_base_256(struct str field, int64_t *ret, struct err *e)
{
    bool negative = (unsigned char)field.p[0] == BASE_256_NEGATIVE;
    uint64_t v = negative ? UINT64_MAX : 0;

    for (size_t i = 0; i < field.n; i++) {
        unsigned char c = (unsigned char)field.p[i];

        if (i == 0 && !negative)
            c &= 0x7F;
        if ((v >> 55) != (negative ? UINT64_MAX >> 55 : 0))
            return err_set(e, ERR_INVALID, "a number in the header does not fit 64 bits");
        v = v << 8 | c;
    }
    *ret = (int64_t)v;
    return 0;
}

static int number_octal(struct str field, int64_t *ret, struct err *e)
{
    int64_t v = 0; /* twelve digits are 36 bits */
    size_t i = 0;

    while (i < field.n && field.p[i] == ' ')
        i++;
    for (; i < field.n && field.p[i] != ' ' && field.p[i] != '\0'; i++) {
        if (field.p[i] < '0' || field.p[i] > '7')
            return err_set(e, ERR_INVALID, "a number in the header is not octal");
        v = v * 8 + (field.p[i] - '0');
    }
    *ret = v;
    return 0;
}

int tar_number(struct str field, int64_t *ret, struct err *e)
{
    if (field.n > 0 && ((unsigned char)field.p[0] & BASE_256))
        return number_base_256(field, ret, e);
    return number_octal(field, ret, e);
}

/* The sum of all bytes, with the field that holds it counted as blanks. */
static int64_t block_checksum(const char block[static TAR_BLOCK])
{
    size_t from = offsetof(struct block, checksum), to = offsetof(struct block, type);
    int64_t sum = 0;

    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= from && i < to ? ' ' : (unsigned char)block[i];
    return sum;
}

#define TEXT(b, field)   ((struct str){ (b)->field, strnlen((b)->field, sizeof(b)->field) })
#define NUMBER(b, field) ((struct str){ (b)->field, sizeof(b)->field })

static int parse_numbers(const struct block *b, bool posix, struct tar_header *h, struct err *e)
{
    const struct {
        struct str field;
        int64_t *to;
    } all[] = {
        { NUMBER(b, mode), &h->mode },   { NUMBER(b, uid), &h->uid },
        { NUMBER(b, gid), &h->gid },     { NUMBER(b, size), &h->size },
        { NUMBER(b, mtime), &h->mtime }, { NUMBER(b, major), &h->major },
        { NUMBER(b, minor), &h->minor },
    };
    size_t n = posix ? COUNT_OF(all) : COUNT_OF(all) - 2; /* v7 headers have no device numbers */

    for (size_t i = 0; i < n; i++) {
        int r = tar_number(all[i].field, all[i].to, e);

        if (r < 0)
            return r;
    }
    return 0;
}

int tar_header_parse(const char block[static TAR_BLOCK], struct tar_header *ret, struct err *e)
{
    const struct block *b = (const struct block *)(const void *)block;
    struct tar_header h = { .type = b->type == '\0' ? '0' : b->type };
    int64_t sum;
    int r = tar_number(NUMBER(b, checksum), &sum, e);

    if (r < 0 || sum != block_checksum(block))
        return err_set(e, ERR_INVALID, "the checksum of the header is wrong");
    r = parse_numbers(b, memcmp(b->magic, "ustar", 5) == 0, &h, e);
    if (r < 0)
        return r;
    h.name = TEXT(b, name);
    h.link = TEXT(b, link);
    if (memcmp(b->magic, POSIX_MAGIC, 6) == 0) /* GNU headers have other fields there */
        h.prefix = TEXT(b, prefix);
    *ret = h;
    return 0;
}

int tar_pax_next(struct str *rest, struct str *ret_key, struct str *ret_value, struct err *e)
{
    struct str length, body, key, value;
    uint64_t n;

    if (rest->n == 0)
        return 0;
    body = str_cut(*rest, ' ', &length);
    if (!str_to_u64(length, &n) || n > rest->n || n < length.n + 1 + 2 || rest->p[n - 1] != '\n')
        return err_set(e, ERR_INVALID, "a record of the pax header has a wrong length");
    body.n = (size_t)n - length.n - 2; /* without blank and newline */
    value = str_cut(body, '=', &key);
    if (!value.p || key.n == 0)
        return err_set(e, ERR_INVALID, "a record of the pax header is not 'key=value'");
    *rest = (struct str){ rest->p + n, rest->n - (size_t)n };
    *ret_key = key;
    *ret_value = value;
    return 1;
}

bool tar_pax_time(struct str s, struct timespec *ret)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    struct str whole, fraction = str_cut(s, '.', &whole);
    int64_t seconds;
    long ns = 0;

    if (!str_to_i64(whole, &seconds))
        return false;
    for (size_t i = 0, scale = 100000000; i < fraction.n; i++, scale /= 10) {
        if (fraction.p[i] < '0' || fraction.p[i] > '9')
            return false;
        ns += (long)scale * (fraction.p[i] - '0'); /* from the tenth digit on, scale is 0 */
    }
    if (negative && ns > 0) { /* -1.25 is -2 seconds and 0.75 */
        if (seconds == INT64_MIN)
            return false;
        seconds--;
        ns = 1000000000 - ns;
    }
    *ret = (struct timespec){ .tv_sec = seconds, .tv_nsec = ns };
    return true;
}

/* Writes octal digits and a final NUL; the value must fit. */
static void write_octal(char *field, size_t size, int64_t v)
{
    field[size - 1] = '\0';
    for (size_t i = size - 1; i-- > 0; v >>= 3)
        field[i] = (char)('0' + (v & 7));
}

#define PUT(b, field, v)     write_octal((b)->field, sizeof(b)->field, (v))
#define FIT(v, most)         ((v) >= 0 && (v) <= (most) ? (int64_t)(v) : 0)
#define PUT_TEXT(b, f, text) memcpy((b)->f, (text), strnlen((text), sizeof(b)->f))

static void finish_block(struct block *b)
{
    memcpy(b->magic, POSIX_MAGIC, sizeof b->magic);
    write_octal(b->checksum, 7, block_checksum((const char *)b));
    b->checksum[7] = ' ';
}

static void write_header_block(char *out, const struct tar_entry *entry)
{
    struct block *b = (struct block *)(void *)out;

    memset(b, 0, sizeof *b);
    PUT_TEXT(b, name, entry->path);
    PUT_TEXT(b, link, entry->link);
    PUT(b, mode, entry->mode & 07777);
    PUT(b, uid, FIT((int64_t)entry->uid, OCTAL_7));
    PUT(b, gid, FIT((int64_t)entry->gid, OCTAL_7));
    PUT(b, size, FIT((int64_t)entry->size, OCTAL_11));
    PUT(b, mtime, FIT(entry->mtime.tv_sec, OCTAL_11));
    PUT(b, major, FIT((int64_t)entry->major, OCTAL_7));
    PUT(b, minor, FIT((int64_t)entry->minor, OCTAL_7));
    b->type = types[entry->type].flag;
    finish_block(b);
}

static void write_pax_block(char *out, size_t size)
{
    struct block *b = (struct block *)(void *)out;

    memset(b, 0, sizeof *b);
    PUT_TEXT(b, name, "pax_header");
    PUT(b, mode, 0644);
    PUT(b, uid, 0);
    PUT(b, gid, 0);
    PUT(b, size, (int64_t)size);
    PUT(b, mtime, 0);
    b->type = 'x';
    finish_block(b);
}

static size_t count_decimal_digits(size_t n)
{
    size_t count = 1;

    while (n >= 10) {
        n /= 10;
        count++;
    }
    return count;
}

/* The length in front of a record counts its own digits. */
static size_t write_pax_record(char *out, const char *key, const char *value)
{
    size_t body = 1 + strlen(key) + 1 + strlen(value) + 1, n = body + count_decimal_digits(body);

    if (count_decimal_digits(n) != count_decimal_digits(body))
        n = body + count_decimal_digits(n);
    return (size_t)snprintf(out, n + 1, "%zu %s=%s\n", n, key, value);
}

static size_t write_pax_number(char *out, const char *key, int64_t v, int64_t most)
{
    char text[24];

    if (v >= 0 && v <= most)
        return 0;
    snprintf(text, sizeof text, "%lld", (long long)v);
    return write_pax_record(out, key, text);
}

static size_t write_pax_text(char *out, const char *key, const char *text, size_t most)
{
    return strlen(text) > most ? write_pax_record(out, key, text) : 0;
}

size_t tar_encode(const struct tar_entry *entry, char out[static TAR_HEAD_MAX])
{
    size_t n = TAR_BLOCK;

    n += write_pax_text(out + n, "path", entry->path, sizeof((struct block *)0)->name);
    n += write_pax_text(out + n, "linkpath", entry->link, sizeof((struct block *)0)->link);
    n += write_pax_number(out + n, "size", (int64_t)entry->size, OCTAL_11);
    n += write_pax_number(out + n, "uid", (int64_t)entry->uid, OCTAL_7);
    n += write_pax_number(out + n, "gid", (int64_t)entry->gid, OCTAL_7);
    n += write_pax_number(out + n, "mtime", entry->mtime.tv_sec, OCTAL_11);
    if (n == TAR_BLOCK) {
        n = 0; /* all values fit */
    } else {
        write_pax_block(out, n - TAR_BLOCK);
        memset(out + n, 0, tar_padding(n));
        n += tar_padding(n);
    }
    write_header_block(out + n, entry);
    return n + TAR_BLOCK;
}
