/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/policy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "lib/yaml/file.h"

/* Opens the file like lib/yaml/file.h, but returns the text, which is hashed. */
static int read_bundle_file(const char *file, struct buf *out, struct err *e)
{
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "cannot open it");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "is not a regular file");
    r = yaml_file_trusted(&st, e);
    return r < 0 ? r : buf_read_fd(out, fd, e);
}

static int load_bundle(const struct trust_policy *p, struct trust_bundle **ret, struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(BUNDLE_BYTES_MAX);
    int r;

    if (!p->file)
        return trust_bundle_read((struct str){ trust_builtin_yaml, trust_builtin_size }, ret, e);
    r = read_bundle_file(p->file, &text, e);
    if (r >= 0)
        r = trust_bundle_read(buf_str(&text), ret, e);
    return err_wrap(e, r, "%s", p->file);
}

/* Applies the configured mode to a new, unshared bundle. */
static void override_mode(const struct trust_policy *p, struct trust_bundle *b)
{
    if (p->mode)
        b->mode = (enum trust_mode)(p->mode - 1);
}

int trust_policy_reload(struct trust_policy *p, struct err *e)
{
    struct trust_bundle *next = NULL;
    bool other;
    int r = load_bundle(p, &next, &p->problem);

    if (!next) {
        LOG(ERROR, "trust.load_failed", LOG_S("error", p->problem.msg),
            LOG_S("in_force", p->bundle ? p->bundle->version : ""));
        if (e)
            *e = p->problem;
        return r;
    }
    override_mode(p, next);
    other = !p->bundle || strcmp(p->bundle->version, next->version) != 0;
    trust_bundle_free(p->bundle);
    p->bundle = next;
    p->problem = (struct err){ 0 };
    p->loaded_ns = clock_wall();
    LOG(INFO, "trust.loaded", LOG_S("version", next->version),
        LOG_S("mode", trust_mode_names[next->mode]), LOG_I("tools", (int64_t)next->tools.n));
    return other;
}

void trust_policy_open(struct trust_policy *p, const char *file, enum trust_failure failure,
                       unsigned mode)
{
    struct trust_policy builtin = { .file = NULL };
    struct err e;

    *p = (struct trust_policy){ .file = file, .failure = failure, .mode = mode };
    if (trust_policy_reload(p, NULL) >= 0 || failure != FAILURE_STATIC)
        return;
    if (load_bundle(&builtin, &p->bundle, &e) < 0) /* prevented by a test; denies everything */
        LOG(ERROR, "trust.builtin_failed", LOG_S("error", e.msg));
    else
        override_mode(p, p->bundle);
}

void trust_policy_done(struct trust_policy *p)
{
    trust_bundle_free(take_ptr(p->bundle));
}
