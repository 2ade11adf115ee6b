/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/metadata.h"

#include <stdio.h>

#include "lib/http/url.h"
#include "domain/model/request.h"

enum { LABEL_NAME_MAX = 63 };
#define ESCAPED "e2b/"

static bool is_plain_label_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("._-", c));
}

static const char *escape_label_name(struct str name, struct arena *a, struct err *e)
{
    char text[LABEL_NAME_MAX + 4];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", ESCAPED);

    for (size_t i = 0; i < name.n && n <= LABEL_NAME_MAX; i++) {
        if (is_plain_label_char(name.p[i])) {
            text[n++] = name.p[i];
            continue;
        }
        snprintf(text + n, 4, "/%02x", (unsigned)(unsigned char)name.p[i]);
        n += 3;
    }
    if (n > LABEL_NAME_MAX) {
        (void)err_set(e, ERR_INVALID,
                      "metadata: the name '%.*s' is longer than %d bytes when escaped",
                      (int)(name.n < 60 ? name.n : 60), name.p, LABEL_NAME_MAX);
        return NULL;
    }
    return arena_dup(a, (struct str){ text, n });
}

/* Whether the name can be a label's name unescaped; labels that only the daemon sets cannot. */
static bool is_own_name(struct str key)
{
    for (size_t i = 0; i < key.n; i++)
        if (!is_plain_label_char(key.p[i]))
            return false;
    return key.n <= LABEL_NAME_MAX && !str_eq(key, STR(LABEL_PEER));
}

static int add_metadata_label(struct str key, struct str value, struct arena *a,
                              struct json_pair *ret, struct err *e)
{
    ret->key = is_own_name(key) ? arena_dup(a, key) : escape_label_name(key, a, e);
    if (!ret->key)
        return -(int)ERR_INVALID;
    ret->value = arena_dup(a, value);
    return label_check(str_from(ret->key), value, e);
}

int metadata_to_labels(const struct json_map *metadata, struct arena *a, struct json_map *ret,
                       struct err *e)
{
    struct json_pair *all = arena_array(a, metadata->n + 1, sizeof *all);
    int r = 0;

    if (metadata->n > REQUEST_LABELS_MAX || !all)
        return err_set(e, ERR_INVALID, "metadata: more than %d entries", REQUEST_LABELS_MAX);
    for (size_t i = 0; r >= 0 && i < metadata->n; i++)
        r = add_metadata_label(str_from(metadata->p[i].key), str_from(metadata->p[i].value), a,
                               &all[i], e);
    if (r >= 0)
        *ret = (struct json_map){ all, metadata->n };
    return r;
}

static int decode_twice(struct str text, struct arena *a, struct str *ret, struct err *e)
{
    struct str once;
    int r = url_decode(text, true, a, &once, e);

    return r < 0 ? r : url_decode(once, false, a, ret, e);
}

int metadata_filter(struct str text, struct arena *a, struct json_map *ret, struct err *e)
{
    struct json_pair *all = arena_array(a, REQUEST_LABELS_MAX, sizeof *all);
    struct str rest = text, key, value;
    struct url_pair p;
    size_t n = 0;
    int r = all ? 0
                : err_set(e, ERR_TOO_BIG, "metadata: needs more memory than the allowed %zu bytes",
                          a->max);

    while (r >= 0 && url_next(&rest, &p)) {
        if (n == REQUEST_LABELS_MAX)
            return err_set(e, ERR_INVALID, "metadata: more than %d entries", REQUEST_LABELS_MAX);
        r = decode_twice(p.name, a, &key, e);
        if (r >= 0)
            r = decode_twice(p.value.p ? p.value : STR(""), a, &value, e);
        if (r >= 0)
            r = add_metadata_label(key, value, a, &all[n++], e);
    }
    if (r >= 0)
        *ret = (struct json_map){ all, n };
    return r;
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Unescapes a label's name; names without the prefix are written unchanged. */
static void write_name(struct json_writer *w, const char *label)
{
    char text[LABEL_NAME_MAX + 1];
    const char *in;
    size_t n = 0;

    if (strncmp(label, ESCAPED, strlen(ESCAPED)) != 0 || strlen(label) > LABEL_NAME_MAX) {
        json_key(w, str_from(label));
        return;
    }
    in = label + strlen(ESCAPED);
    while (*in) {
        bool coded = in[0] == '/' && hex_of(in[1]) >= 0 && hex_of(in[2]) >= 0;

        text[n++] = coded ? (char)(hex_of(in[1]) << 4 | hex_of(in[2])) : in[0];
        in += coded ? 3 : 1;
    }
    json_key(w, str_is_utf8((struct str){ text, n }) ? (struct str){ text, n } : str_from(label));
}

void metadata_write(struct json_writer *w, const struct json_map *labels)
{
    json_begin_object(w);
    for (size_t i = 0; i < labels->n; i++) {
        write_name(w, labels->p[i].key);
        json_put_lossy(w, str_from(labels->p[i].value));
    }
    json_end_object(w);
}
