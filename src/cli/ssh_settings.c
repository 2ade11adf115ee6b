/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ssh_settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

enum { VALUE_MAX = 3 * PATH_MAX };

/* The server runs inside the sandbox and may be compromised: the client offers it none of the
 * caller's own keys, and stores none of its host keys. */
static const struct {
    const char *name, *value;
} fixed[] = {
    { "IdentitiesOnly", "yes" },
    { "PreferredAuthentications", "publickey" },
    { "StrictHostKeyChecking", "yes" },
    { "UserKnownHostsFile", "none" },
    { "GlobalKnownHostsFile", "none" },
    { "HostKeyAlgorithms", "ssh-ed25519" },
    { "KexAlgorithms", "^curve25519-sha256" }, /* a quarter of the time of what comes first else */
    { "UpdateHostKeys", "no" },
    { "VerifyHostKeyDNS", "no" },
    { "CheckHostIP", "no" },
    { "CanonicalizeHostname", "no" },
    { "ForwardX11", "no" },
    { "PermitLocalCommand", "no" },
};

/* One word to a shell, and to ssh, which gives '%' a meaning before. */
static int add_for_shell(struct buf *b, const char *word)
{
    int r = buf_add_c(b, '\'');

    for (; *word && r >= 0; word++)
        r = *word == '\''  ? buf_addf(b, "'\\''")
            : *word == '%' ? buf_addf(b, "%%%%")
                           : buf_add_c(b, *word);
    return r < 0 ? r : buf_add_c(b, '\'');
}

/* One word of a line that ssh cuts itself. */
static int add_for_ssh(struct buf *b, const char *word)
{
    int r = buf_add_c(b, '"');

    for (; *word && r >= 0; word++)
        r = *word == '"' || *word == '\\' ? buf_addf(b, "\\%c", *word)
            : *word == '%'                ? buf_addf(b, "%%%%")
                                          : buf_add_c(b, *word);
    return r < 0 ? r : buf_add_c(b, '"');
}

typedef int add_fn(struct buf *b, const char *word);

static const char *const places[] = { "SANDBOXER_STATE", "SANDBOXER_SOCKET", "SANDBOXER_URL" };

/* "/usr/bin/env NAME=VALUE …" with those that are set. */
static int add_daemon_places(add_fn *add, struct buf *b)
{
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(places) && r >= 0; i++) {
        AUTO(buf_done) struct buf word = BUF_INIT(VALUE_MAX);
        const char *value = getenv(places[i]);

        if (!value || !value[0])
            continue;
        r = b->n ? 0 : buf_addf(b, "/usr/bin/env ");
        if (r >= 0)
            r = buf_addf(&word, "%s=%s", places[i], value);
        if (r >= 0)
            r = add(b, word.p);
        if (r >= 0)
            r = buf_add_c(b, ' ');
    }
    return r;
}

/* "PROGRAM ssh --server URL MORE". */
static int add_command(const struct ssh_settings *s, add_fn *add, const char *more, struct buf *b,
                       struct err *e)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
    int r;

    if (n < 0)
        return err_sys(e, "finding our own program");
    self[n] = '\0';
    r = s->places ? add_daemon_places(add, b) : 0;
    if (r >= 0)
        r = add(b, self);
    if (r >= 0)
        r = buf_addf(b, " ssh ");
    if (r >= 0 && s->server) {
        r = buf_addf(b, "--server ");
        if (r >= 0)
            r = add(b, s->server);
        if (r >= 0)
            r = buf_add_c(b, ' ');
    }
    if (r >= 0)
        r = buf_addf(b, "%s", more);
    return r < 0 ? err_set(e, ERR_TOO_BIG,
                           "the command for ssh has more than %d bytes; shorten the path of this "
                           "program or --server",
                           VALUE_MAX)
                 : 0;
}

/* A path with a line break would be another line of the configuration. */
static int check_setting_texts(const struct ssh_settings *s, struct err *e)
{
    const char *const texts[] = { s->key,
                                  s->server,
                                  s->user,
                                  s->places ? getenv(places[0]) : NULL,
                                  s->places ? getenv(places[1]) : NULL,
                                  s->places ? getenv(places[2]) : NULL };

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (texts[i] && strpbrk(texts[i], "\n\r"))
            return err_set(
                e, ERR_INVALID,
                "'%.80s' has a line break, which a setting of ssh cannot contain; rename it",
                texts[i]);
    return 0;
}

int ssh_settings_each(const struct ssh_settings *s, ssh_setting_fn *each, void *user, struct err *e)
{
    AUTO(buf_done)
    struct buf proxy = BUF_INIT(VALUE_MAX), hosts = BUF_INIT(VALUE_MAX), key = BUF_INIT(VALUE_MAX);
    int r = check_setting_texts(s, e);

    if (r >= 0)
        r = add_command(s, add_for_shell,
                        s->agent ? "--stdio --agent --user '%r' '%n'" : "--stdio --user '%r' '%n'",
                        &proxy, e);
    if (r >= 0)
        r = add_command(s, add_for_ssh, "--host-key %n", &hosts, e);
    if (r >= 0 && add_for_ssh(&key, s->key) < 0)
        r = err_set(e, ERR_TOO_BIG, "%.80s…: the path of the key has more than %d bytes", s->key,
                    VALUE_MAX);
    if (r < 0)
        return r;
    each(user, "User", s->user ? s->user : SSH_USUAL_USER);
    each(user, "ProxyCommand", proxy.p);
    each(user, "KnownHostsCommand", hosts.p);
    each(user, "IdentityFile", key.p);
    each(user, "ForwardAgent", s->agent ? "yes" : "no");
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        each(user, fixed[i].name, fixed[i].value);
    return 0;
}
