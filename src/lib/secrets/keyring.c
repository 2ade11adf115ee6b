/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/secrets/keyring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/crypto/aead.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"

#define FIRST_LINE "sandboxer-keys 1\n"
#define MARK       "sealed:"

struct numbered_key {
    uint32_t number;
    unsigned char bytes[CRYPTO_AEAD_KEY];
};

struct keyring {
    pthread_rwlock_t lock;
    struct numbered_key keys[KEYRING_KEYS_MAX]; /* the active one first */
    size_t n;
    size_t in_file; /* of these */
    int dir;        /* -1: not ours to change */
    char name[64];
};

static struct keyring *make_empty(void)
{
    struct keyring *k = new0(sizeof *k);

    pthread_rwlock_init(&k->lock, NULL);
    k->dir = -1;
    return k;
}

void keyring_free(struct keyring *k)
{
    if (!k)
        return;
    drop_fd(&k->dir);
    pthread_rwlock_destroy(&k->lock);
    crypto_wipe(k->keys, sizeof k->keys);
    free(k);
}

void keyring_freep_(struct keyring **k)
{
    keyring_free(*k);
}

static void wipe_buf(struct buf *b)
{
    if (b->p)
        crypto_wipe(b->p, b->n);
    buf_done(b);
}

/* --- the file --- */

static int read_key_line(struct keyring *k, struct str line, struct err *e)
{
    AUTO(wipe_buf) struct buf bytes = BUF_INIT(CRYPTO_AEAD_KEY + 1);
    struct str number, hex = str_trim(str_cut(line, ' ', &number));
    uint64_t n;

    if (k->n == KEYRING_KEYS_MAX)
        return err_set(e, ERR_TOO_BIG, "a key file has at most %d keys", KEYRING_KEYS_MAX);
    if (!str_to_u64(number, &n) || n == 0 || n > UINT32_MAX ||
        crypto_unhex(hex, &bytes, NULL) < 0 || bytes.n != CRYPTO_AEAD_KEY)
        return err_set(e, ERR_INVALID, "a line of a key file is NUMBER and 64 hexadecimal digits");
    for (size_t i = 0; i < k->n; i++)
        if (k->keys[i].number == n)
            return err_set(e, ERR_INVALID, "key %u is there twice", (unsigned)n);
    k->keys[k->n].number = (uint32_t)n;
    memcpy(k->keys[k->n++].bytes, bytes.p, CRYPTO_AEAD_KEY);
    return 0;
}

int keyring_parse(struct str text, struct keyring **ret, struct err *e)
{
    AUTO(keyring_freep_) struct keyring *k = make_empty();

    if (text.n > KEYRING_TEXT_MAX || !str_starts(text, STR(FIRST_LINE)))
        return err_set(e, ERR_INVALID, "a key file begins with the line 'sandboxer-keys 1'");
    for (text.p += sizeof FIRST_LINE - 1, text.n -= sizeof FIRST_LINE - 1; text.n;) {
        struct str line;
        int r;

        text = str_cut(text, '\n', &line);
        r = str_trim(line).n ? read_key_line(k, line, e) : 0;
        if (r < 0)
            return r;
    }
    if (!k->n)
        return err_set(e, ERR_INVALID, "the key file has no key");
    k->in_file = k->n;
    *ret = take_ptr(k);
    return 0;
}

static int write_key_lines(const struct numbered_key *keys, size_t n, struct buf *out)
{
    int r = buf_add(out, STR(FIRST_LINE));

    for (size_t i = 0; i < n && r >= 0; i++) {
        r = buf_addf(out, "%u ", (unsigned)keys[i].number);
        if (r >= 0)
            r = crypto_hex((struct str){ (const char *)keys[i].bytes, CRYPTO_AEAD_KEY }, out);
        if (r >= 0)
            r = buf_add_c(out, '\n');
    }
    return r;
}

int keyring_write(const struct keyring *k, struct buf *out)
{
    return write_key_lines(k->keys, k->in_file, out);
}

static int read_key_file(int dir, const char *name, struct buf *ret, struct err *e)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    char *room;
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return -(int)ERR_NOT_FOUND;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening the key file %s", name);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
        return err_set(e, ERR_DENIED, "the key file %s must be a file with mode 0600", name);
    if (buf_room(ret, KEYRING_TEXT_MAX, &room) < 0)
        return err_set(e, ERR_BUG,
                       "internal error: the buffer for the key file has less than %d bytes",
                       KEYRING_TEXT_MAX);
    n = read(fd, room, KEYRING_TEXT_MAX);
    if (n < 0)
        return err_sys(e, "reading the key file %s", name);
    buf_grew(ret, (size_t)n);
    return 0;
}

/* A new file takes the place of the old one, at once and for good. */
static int replace_key_file(int dir, const char *name, struct str text, bool first, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char new[80];
    int r;

    snprintf(new, sizeof new, "%s.new", name);
    (void)unlinkat(dir, new, 0);
    fd = openat(dir, new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(e, "making the key file %s", name);
    r = write_all(fd, text, e);
    if (r < 0)
        return err_wrap(e, r, "writing the key file %s", name);
    if (fsync(fd) < 0)
        return err_sys(e, "syncing the key file %s", name);
    /* Two daemons at a first start: the first to link wins, and a key is never replaced. */
    if (first ? linkat(dir, new, dir, name, 0) < 0 && errno != EEXIST
              : renameat(dir, new, dir, name) < 0)
        return err_sys(e, "putting the key file %s in place", name);
    if (first)
        (void)unlinkat(dir, new, 0);
    return fsync(dir) < 0 ? err_sys(e, "syncing the directory of the key file") : 0;
}

int keyring_new(struct keyring **ret, struct err *e)
{
    AUTO(keyring_freep_) struct keyring *k = make_empty();
    int r = crypto_random(k->keys[0].bytes, CRYPTO_AEAD_KEY, e);

    if (r < 0)
        return r;
    k->keys[0].number = 1;
    k->n = k->in_file = 1;
    *ret = take_ptr(k);
    return 0;
}

int keyring_open(int dir, const char *name, struct keyring **ret, struct err *e)
{
    AUTO(wipe_buf) struct buf text = BUF_INIT(2 * KEYRING_TEXT_MAX);
    AUTO(wipe_buf) struct buf made = BUF_INIT(KEYRING_TEXT_MAX);
    AUTO(keyring_freep_) struct keyring *first = NULL;
    struct keyring *k = NULL;
    int r = read_key_file(dir, name, &text, e);

    if (r == -(int)ERR_NOT_FOUND) {
        r = keyring_new(&first, e);
        if (r >= 0)
            r = keyring_write(first, &made);
        if (r >= 0)
            r = replace_key_file(dir, name, buf_str(&made), true, e);
        if (r >= 0)
            r = read_key_file(dir, name, &text, e);
    }
    if (r >= 0)
        r = keyring_parse(buf_str(&text), &k, e);
    if (r < 0)
        return err_wrap(e, r, "the key of secrets");
    k->dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    snprintf(k->name, sizeof k->name, "%s", name);
    *ret = k;
    return 0;
}

void keyring_detach(struct keyring *k)
{
    drop_fd(&k->dir);
}

int keyring_dir(const struct keyring *k)
{
    return k ? k->dir : -1;
}

/* --- rotation --- */

uint32_t keyring_active(const struct keyring *k)
{
    return k->keys[0].number;
}

bool keyring_has_old(const struct keyring *k)
{
    return k->in_file > 1;
}

static int save_keys(struct keyring *k, const struct numbered_key *keys, size_t n, struct err *e)
{
    AUTO(wipe_buf) struct buf text = BUF_INIT(KEYRING_TEXT_MAX);
    int r;

    if (k->dir < 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the key file is not the daemon's to change: write the new key into it as "
                       "the first line, keep the old one below, and restart the daemon");
    r = write_key_lines(keys, n, &text);
    return r < 0 ? r : replace_key_file(k->dir, k->name, buf_str(&text), false, e);
}

int keyring_rotate(struct keyring *k, struct err *e)
{
    struct numbered_key next[KEYRING_KEYS_MAX];
    size_t kept = k->n < KEYRING_KEYS_MAX ? k->n : KEYRING_KEYS_MAX - 1;
    int r = crypto_random(next[0].bytes, CRYPTO_AEAD_KEY, e);

    if (r < 0)
        return r;
    if (k->in_file == KEYRING_KEYS_MAX)
        return err_set(e, ERR_CONFLICT, "the key file has %d keys already", KEYRING_KEYS_MAX);
    next[0].number = 0;
    for (size_t i = 0; i < k->n; i++)
        next[0].number = next[0].number > k->keys[i].number ? next[0].number : k->keys[i].number;
    next[0].number++;
    memcpy(next + 1, k->keys, kept * sizeof *next);
    r = save_keys(k, next, k->in_file + 1, e);
    if (r >= 0) {
        pthread_rwlock_wrlock(&k->lock);
        memcpy(k->keys, next, (kept + 1) * sizeof *next);
        k->n = kept + 1;
        k->in_file++;
        pthread_rwlock_unlock(&k->lock);
    }
    crypto_wipe(next, sizeof next);
    return r;
}

int keyring_retire(struct keyring *k, struct err *e)
{
    int r = k->in_file > 1 ? save_keys(k, k->keys, 1, e) : 0;

    if (r >= 0)
        k->in_file = 1;
    return r;
}

/* --- sealing --- */

bool sealed_is(struct str text)
{
    return str_starts(text, STR(MARK));
}

static uint32_t split_sealed(struct str text, struct str *ret_base64)
{
    struct str number;
    uint64_t n;

    if (!sealed_is(text))
        return 0;
    text = (struct str){ text.p + sizeof MARK - 1, text.n - (sizeof MARK - 1) };
    *ret_base64 = str_cut(text, ':', &number);
    return str_to_u64(number, &n) && n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

uint32_t sealed_key(struct str text)
{
    struct str base64;

    return split_sealed(text, &base64);
}

static bool find_key(struct keyring *k, uint32_t number, struct numbered_key *ret)
{
    bool found = false;

    pthread_rwlock_rdlock(&k->lock);
    for (size_t i = 0; i < k->n && !found; i++)
        if (!number || k->keys[i].number == number) {
            *ret = k->keys[i];
            found = true;
        }
    pthread_rwlock_unlock(&k->lock);
    return found;
}

int keyring_seal(struct keyring *k, struct str name, struct str plain, struct buf *out,
                 struct err *e)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(plain.n + CRYPTO_AEAD_MORE + 1);
    struct numbered_key key;
    int r;

    if (!find_key(k, 0, &key))
        return err_set(e, ERR_BUG, "a keyring without a key");
    r = crypto_aead_seal(key.bytes, name, plain, &bytes, e);
    if (r >= 0 && (buf_addf(out, MARK "%u:", (unsigned)key.number) < 0 ||
                   crypto_base64(buf_str(&bytes), out) < 0))
        r = err_set(e, ERR_TOO_BIG, STR_FMT ": the sealed text has more than %zu bytes",
                    STR_ARG(name), out->max);
    crypto_wipe(&key, sizeof key);
    return r;
}

int keyring_unseal(struct keyring *k, struct str name, struct str sealed, struct buf *out,
                   struct err *e)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(sealed.n + 1);
    struct numbered_key key;
    struct str base64;
    uint32_t number = split_sealed(sealed, &base64);
    int r;

    if (!number || crypto_unbase64(base64, &bytes, NULL) < 0)
        return err_set(e, ERR_DENIED, "a sealed text is damaged");
    if (!find_key(k, number, &key))
        return err_set(e, ERR_DENIED, "key %u, which it was sealed with, is not in the key file",
                       (unsigned)number);
    r = crypto_aead_open(key.bytes, name, buf_str(&bytes), out, e);
    crypto_wipe(&key, sizeof key);
    return r;
}
