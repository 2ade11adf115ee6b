/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/crypto/authority.h"
#include "lib/crypto/secret.h"
#include "lib/proc/sealed.h"

enum { PEM_MAX = 256 << 10 };

#define CERTIFICATE "authority.pem"
#define KEY         "authority.key"

static int read_pem_file(const char *path, struct buf *ret, struct err *e)
{
    AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return fd < 0 ? err_sys(e, "%s", path) : err_wrap(e, buf_read_fd(ret, fd, e), "%s", path);
}

static int fail_state_size(const char *directory, struct err *e)
{
    return err_set(
        e, ERR_TOO_BIG,
        "state: the paths of files in %.120s have more than %d bytes; choose a shorter one",
        directory, PATH_MAX - 1);
}

static int write_pem_file(const char *directory, const char *name, mode_t mode, struct str text,
                          struct err *e)
{
    char path[PATH_MAX];
    AUTO_CLOSE int fd = -1;

    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return fail_state_size(directory, e);
    fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 || write_all(fd, text, NULL) < 0 || fsync(fd) < 0)
        return err_sys(e, "%s", path);
    return 0;
}

static void remove_authority_files(const char *directory)
{
    static const char *const files[] = { CERTIFICATE, KEY };
    char path[PATH_MAX];

    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (snprintf(path, sizeof path, "%s/%s", directory, files[i]) < (int)sizeof path)
            unlink(path);
    rmdir(directory);
}

/* Creates both files atomically: in a temporary directory that is renamed. */
static int make_authority(const char *domain, const char *place, struct err *e)
{
    AUTO(certificate_done) struct certificate made = { BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) };
    char directory[PATH_MAX];
    int r = crypto_authority_make(domain, &made.chain, &made.key, e);

    if (r < 0)
        return r;
    if (snprintf(directory, sizeof directory, "%s.XXXXXX", place) >= (int)sizeof directory)
        return fail_state_size(place, e);
    if (!mkdtemp(directory))
        return err_sys(e, "making %s", directory);
    r = write_pem_file(directory, CERTIFICATE, 0644, buf_str(&made.chain), e);
    if (r >= 0)
        r = write_pem_file(directory, KEY, 0600, buf_str(&made.key), e);
    if (r >= 0 && (chmod(directory, 0755) < 0 ||
                   (rename(directory, place) < 0 && errno != ENOTEMPTY && errno != EEXIST)))
        r = err_sys(e, "making %s", place);
    remove_authority_files(directory); /* no-op after the rename */
    return r;
}

static int read_pem_below(const char *directory, const char *name, struct buf *ret, struct err *e)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path
               ? read_pem_file(path, ret, e)
               : fail_state_size(directory, e);
}

/* Only the authority is stored: the certificate is issued at every start and renewed regularly, so
 * it never expires. */
static int issue_certificate(const struct config *c, struct certificate *ret, struct err *e)
{
    AUTO(certificate_done) struct certificate authority = { BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) };
    char place[PATH_MAX];
    int r;

    if (snprintf(place, sizeof place, "%s/tls", c->state) >= (int)sizeof place)
        return fail_state_size(c->state, e);
    if (mkdir(place, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "making %s", place);
    if (snprintf(place, sizeof place, "%s/tls/%s", c->state, c->domain.name) >= (int)sizeof place)
        return fail_state_size(c->state, e);
    r = access(place, F_OK) == 0 ? 0 : make_authority(c->domain.name, place, e);
    if (r >= 0)
        r = read_pem_below(place, CERTIFICATE, &authority.chain, e);
    if (r >= 0)
        r = read_pem_below(place, KEY, &authority.key, e);
    if (r >= 0)
        r = crypto_authority_issue(buf_str(&authority.chain), buf_str(&authority.key),
                                   c->domain.name, &ret->chain, &ret->key, e);
    return err_wrap(e, r, "%s", place);
}

int certificate_load(const struct config *c, struct certificate *ret, struct err *e)
{
    int r;

    *ret = (struct certificate){ BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) };
    if (!c->domain.listen)
        return 0;
    if (!c->domain.certificate)
        return issue_certificate(c, ret, e);
    r = err_wrap(e, read_pem_file(c->domain.certificate, &ret->chain, e), "domain.certificate");
    return r < 0 ? r : err_wrap(e, read_pem_file(c->domain.key, &ret->key, e), "domain.key");
}

static void wipe_text(struct buf *text)
{
    crypto_wipe(text->p, text->n);
    buf_done(text);
}

/* PEM contains no NUL, so a NUL separates the two texts. */
int certificate_pass(const struct config *c, int *ret, struct err *e)
{
    AUTO(certificate_done) struct certificate loaded = { 0 };
    struct buf text AUTO(wipe_text) = BUF_INIT(2 * PEM_MAX + 1);
    int r = certificate_load(c, &loaded, e);

    if (r >= 0 && (buf_add(&text, buf_str(&loaded.chain)) < 0 || buf_add_c(&text, 0) < 0 ||
                   buf_add(&text, buf_str(&loaded.key)) < 0))
        r = err_set(e, ERR_TOO_BIG, "the certificate chain or its key has more than %d bytes",
                    PEM_MAX);
    return r < 0 ? r : sealed_text(buf_str(&text), "certificate", ret, e);
}

int certificate_receive(int fd, struct certificate *ret, struct err *e)
{
    struct buf text AUTO(wipe_text) = BUF_INIT(2 * PEM_MAX + 4096);
    struct str chain, key;
    int r;

    *ret = (struct certificate){ BUF_INIT(PEM_MAX), BUF_INIT(PEM_MAX) };
    r = lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, "seeking") : buf_read_fd(&text, fd, e);
    if (r < 0)
        return err_wrap(e, r, "the certificate");
    key = str_cut(buf_str(&text), 0, &chain);
    if (buf_add(&ret->chain, chain) < 0 || buf_add(&ret->key, key) < 0)
        return err_set(e, ERR_TOO_BIG, "the certificate chain or its key has more than %d bytes",
                       PEM_MAX);
    return 0;
}

void certificate_done(struct certificate *c)
{
    wipe_text(&c->key);
    buf_done(&c->chain);
}
