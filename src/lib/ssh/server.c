/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/server.h"

#include <stdio.h>

#include "base/own.h"
#include "lib/crypto/secret.h"
#include "lib/proc/sealed.h"

/* Everything that is not its default, or whose default has changed between versions. */
static const struct {
    const char *name, *value;
} settings[] = {
    { "HostKey", SSH_KEYS_FILE },
    { "AuthorizedKeysFile", SSH_KEYS_FILE },
    { "StrictModes",
      "no" }, /* the file is ours, regardless of the apparent owners of its parent directories */
    { "AuthenticationMethods", "publickey" },
    { "PubkeyAuthentication", "yes" },
    { "PasswordAuthentication", "no" },
    { "KbdInteractiveAuthentication", "no" },
    { "PermitRootLogin", "prohibit-password" },
    { "UsePAM", "no" },
    { "UseDNS", "no" },
    { "AllowTcpForwarding", "local" },
    { "AllowStreamLocalForwarding", "local" },
    { "GatewayPorts", "no" },
    { "PermitTunnel", "no" },
    { "X11Forwarding", "no" },
    { "PermitUserEnvironment", "no" },
    { "PermitUserRC", "no" },
    { "PrintMotd", "no" },
    { "PrintLastLog", "no" },
    { "TCPKeepAlive", "no" }, /* there is no TCP: a client that has left closes the pipes */
    { "LoginGraceTime", "30" },
    { "PidFile", "none" },
    { "LogLevel", "ERROR" },
    { "Subsystem", "sftp internal-sftp" },
};

enum { PATH_TEXT = 32, SETTING_TEXT = 128 };

/* --- what it is to find open --- */

/* Both keys are in one text: each reader skips the other key. */
static int write_ssh_keys(const struct ssh_server *s, struct buf *ret)
{
    int r = ssh_private_key_write(s->host_key, ret);

    return r < 0 ? r
                 : buf_addf(ret, "restrict,pty,port-forwarding%s " STR_FMT "\n",
                            s->agent ? ",agent-forwarding" : "", STR_ARG(s->client_key));
}

static int open_ssh_files(const struct ssh_server *s, struct ssh_start *ret, struct err *e)
{
    AUTO(buf_done) struct buf keys = BUF_INIT(SSH_KEYS_MAX);
    const int *kit = ssh_kit_files(s->kit, &ret->n);
    int r = write_ssh_keys(s, &keys) < 0
                ? err_set(e, ERR_TOO_BIG, "the keys take more than %d bytes", SSH_KEYS_MAX)
                : sealed_text(buf_str(&keys), "keys", &ret->keys, e);

    crypto_wipe(keys.p, keys.n);
    if (r < 0)
        return r;
    ret->files[0] = ret->keys;
    memcpy(ret->files + 1, kit, ret->n * sizeof *kit);
    ret->n++;
    return 0;
}

/* --- its configuration --- */

static const char *fd_path(size_t file, struct arena *a)
{
    char text[PATH_TEXT];

    snprintf(text, sizeof text, "/proc/self/fd/%zu", SSH_KEYS_FD + file);
    return arena_dup(a, str_from(text));
}

/* In the loader's own order, and ours before all: the first that has a name counts. */
static const char *library_list(const struct ssh_start *start, struct arena *a)
{
    char text[SSH_SERVER_FILES_MAX * PATH_TEXT];
    size_t at = 0;

    for (size_t i = 1 + SSH_KIT_PRELOAD; i < start->n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s/proc/self/fd/%zu", at ? ":" : "",
                               SSH_KEYS_FD + i);
    return arena_dup(a, (struct str){ text, at });
}

static int fill_words(const struct ssh_server *s, struct arena *a, struct ssh_start *ret)
{
    const char *before[] = {
        fd_path(1 + SSH_KIT_LOADER, a),
        "--inhibit-cache",
        "--preload",
        library_list(ret, a),
        "--argv0",
        "/usr/sbin/sshd",
        fd_path(1 + SSH_KIT_SERVER, a),
        "-i",
        "-e",
        "-r", /* not once more from a file */
        "-f",
        "none",
    };
    char text[SETTING_TEXT];
    size_t n = 0;

    ret->argv =
        arena_array(a, COUNT_OF(before) + 2 * (COUNT_OF(settings) + 1) + 1, sizeof *ret->argv);
    if (!ret->argv)
        return -(int)ERR_TOO_BIG;
    for (size_t i = 0; i < COUNT_OF(before); i++)
        if (!(ret->argv[n++] = before[i]))
            return -(int)ERR_TOO_BIG;
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        snprintf(text, sizeof text, "%s=%s", settings[i].name, settings[i].value);
        ret->argv[n++] = "-o";
        if (!(ret->argv[n++] = arena_dup(a, str_from(text))))
            return -(int)ERR_TOO_BIG;
    }
    ret->argv[n++] = "-o";
    ret->argv[n] = s->agent ? "AllowAgentForwarding=yes" : "AllowAgentForwarding=no";
    return 0;
}

int ssh_server_fill(const struct ssh_server *s, struct arena *a, struct ssh_start *ret,
                    struct err *e)
{
    int r;

    *ret = (struct ssh_start){ .keys = -1 };
    r = open_ssh_files(s, ret, e);
    if (r >= 0 && fill_words(s, a, ret) < 0) {
        drop_fd(&ret->keys);
        r = err_set(
            e, ERR_TOO_BIG,
            "the settings and paths of the ssh server need more memory than the allowed %zu "
            "bytes",
            a->max);
    }
    return r;
}
