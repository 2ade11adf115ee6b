/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is read as a profile, or as a configuration, is the same again when it was written
 * and read once more. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "domain/config/config.h"
#include "domain/profile/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void write_profile(const struct profile *p, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    profile_write(p, &w);
    must(json_writer_finish(&w, NULL) == 0);
}

static void on_mistake(void *user, const struct err *e)
{
    must(e->msg[0]);
    ++*(size_t *)user;
}

/* Both readers agree, and a refusal has a reason. */
static void try_mistakes(struct str text, bool good)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    size_t n = 0;
    struct err e;

    must((profile_read_all(text, &(struct json_mistakes){ on_mistake, &n }, &p, &e) >= 0) == good);
    must(good == !n);
}

static void try_profile(struct str text)
{
    AUTO(buf_done) struct buf one = BUF_INIT(16 << 20), two = BUF_INIT(16 << 20);
    AUTO(profile_unrefp_) struct profile *p = NULL, *again = NULL;
    struct err e;
    bool good = profile_read(text, &p, &e) >= 0;

    try_mistakes(text, good);
    if (!good)
        return;
    write_profile(p, &one);
    if (one.n > PROFILE_BYTES_MAX)
        return; /* with all its defaults it may be longer than a file may be */
    must(profile_read(buf_str(&one), &again, NULL) == 0);
    write_profile(again, &two);
    must(str_eq(buf_str(&one), buf_str(&two)));
}

/* From a file in memory: files are what it is read from. */
static int load_config(struct str text, struct config *ret, struct arena *a)
{
    AUTO_CLOSE int fd = memfd_create("config", MFD_CLOEXEC);
    char path[32];

    must(fd >= 0 && fchmod(fd, 0600) == 0);
    must(write(fd, text.p, text.n) == (ssize_t)text.n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return config_load(path, ret, a, NULL);
}

static void try_config(struct str text)
{
    AUTO(buf_done) struct buf one = BUF_INIT(16 << 20), two = BUF_INIT(16 << 20);
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
    struct config c, again;

    if (load_config(text, &c, &a) < 0)
        return;
    must(config_write(&c, CONFIG_YAML, &one, NULL) == 0);
    if (one.n > CONFIG_BYTES_MAX)
        return;
    must(load_config(buf_str(&one), &again, &a) == 0);
    must(config_write(&again, CONFIG_YAML, &two, NULL) == 0);
    must(str_eq(buf_str(&one), buf_str(&two)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data, size };

    try_profile(text);
    try_config(text);
    return 0;
}
