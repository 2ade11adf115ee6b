/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/crypto/secret.h"
#include "lib/proc/caps.h"
#include "lib/proc/confine.h"
#include "engine/attest/changes.h"
#include "engine/attest/envelope.h"
#include "engine/attest/files.h"
#include "lib/tar/tree.h"

/* Exit statuses; the command line hands them on. */
enum { DIFFERENT = 1, MISUSED = 2, MISSING = 3, DENIED = 5, FAILED = 125 };

/* For `changes`; UNMAPPED is the overflow uid of a user namespace. */
enum { LAYER_FD = 3, LOWER_FD, USERNS_FD, COMPLAINT_MAX = 4096, UNMAPPED = 65534 };

static int print_attest_error(const struct err *e)
{
    fprintf(stderr, "sandboxer-seal: %s\n", e->msg);
    switch (e->code) {
    case ERR_INVALID:
    case ERR_TOO_BIG:
        return MISUSED;
    case ERR_DENIED:
        return DENIED;
    default:
        return e->sys == ENOENT ? MISSING : FAILED;
    }
}

static int open_argument_dir(const char *path, int *ret, struct err *e)
{
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, "%s", path) : 0;
}

static int print_json_output(const struct buf *b, struct err *e)
{
    if (fwrite(b->p, 1, b->n, stdout) != b->n || fputc('\n', stdout) == EOF ||
        fflush(stdout) == EOF)
        return err_sys(e, "writing the output");
    return 0;
}

/* list DIR BEFORE FILE-BYTES ALL-BYTES FILES: lists files, changes and violations. */
static int run_attest_list(char **argv, struct err *e)
{
    AUTO(attest_files_done) struct attest_files files = { 0 }, before = { 0 };
    AUTO(buf_done) struct buf out = BUF_INIT(ATTEST_TEXT_MAX);
    struct attest_limits limits = { 0 };
    AUTO_CLOSE int dir = -1, old = -1;
    struct json_writer w;
    int r = open_argument_dir(argv[0], &dir, e);

    if (!str_to_u64(str_from(argv[2]), &limits.file_bytes) ||
        !str_to_u64(str_from(argv[3]), &limits.bytes) ||
        !str_to_u64(str_from(argv[4]), &limits.files))
        return err_set(e, ERR_INVALID, "the limits must be numbers");
    if (r >= 0)
        r = open_argument_dir(argv[1], &old, e);
    if (r >= 0)
        r = attest_files_read(&files, dir, e);
    if (r >= 0)
        r = attest_files_read(&before, old, e);
    if (r < 0)
        return r;
    json_writer_init(&w, &out, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("deleted"));
    attest_compare(&files, &before, &w);
    json_key(&w, STR("files"));
    attest_files_write(&files, &w);
    json_key(&w, STR("violations"));
    attest_violations_write(&files, &limits, &w);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : print_json_output(&out, e);
}

/* From here on only the layer is reachable, as the sandbox's root. Ids that are not mapped in the
 * namespace (the host's root, or a plain user's own id) are dropped. */
static int enter_sandbox(struct err *e)
{
    const struct confine c = { .parent = getppid(),
                               .dir = LAYER_FD,
                               .caps = CAP_BIT(CAP_DAC_READ_SEARCH),
                               .file_max = COMPLAINT_MAX,
                               .fds_max = TREE_DEPTH_MAX + 32 };
    uint64_t keep = c.caps | CAP_BIT(CAP_SYS_CHROOT) | CAP_BIT(CAP_SETPCAP);

    if (setns(USERNS_FD, CLONE_NEWUSER) < 0)
        return err_sys(e, "entering the sandbox's user namespace");
    close(USERNS_FD);
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return err_sys(e, "dropping groups");
    if (geteuid() == UNMAPPED && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        return err_sys(e, "becoming the sandbox's root");
    return caps_set(keep, 0, e) < 0 ? -(int)ERR_SYS : confine_enter(&c, e);
}

/* The parent sends a byte; if it ends first, so does this process. */
static int await_parent(struct err *e)
{
    char c;

    if (write(STDOUT_FILENO, "\n", 1) != 1)
        return err_sys(e, "reporting readiness");
    return read(STDIN_FILENO, &c, 1) == 1
               ? 0
               : err_set(e, ERR_UPSTREAM, "the parent process has exited");
}

/* changes PARTS, with the writable layer, its lower root and the user namespace as descriptors:
 * reads the layer, prints a newline, waits for one, reads the layer again and prints the
 * changes. */
static int run_attest_changes(char **argv, struct err *e)
{
    AUTO(attest_files_done) struct attest_files before = { 0 }, after = { 0 };
    AUTO(buf_done) struct buf out = BUF_INIT(ATTEST_TEXT_MAX);
    struct attest_parts parts;
    struct json_writer w;
    int r = attest_parts_parse(str_from(argv[0]), &parts, e);

    if (r >= 0)
        r = enter_sandbox(e);
    if (r >= 0)
        r = attest_layer_read(&before, LAYER_FD, &parts, e);
    if (r >= 0)
        r = await_parent(e);
    if (r >= 0)
        r = attest_layer_read(&after, LAYER_FD, &parts, e);
    if (r < 0)
        return r;
    json_writer_init(&w, &out, JSON_COMPACT);
    attest_changes_write(&before, &after, LOWER_FD, &w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : print_json_output(&out, e);
}

/* sign STATE: the text on stdin, in an envelope. */
static int run_attest_sign(char **argv, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(ATTEST_TEXT_MAX), out = BUF_INIT(ATTEST_ENVELOPE_MAX);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    AUTO_CLOSE int state = -1;
    int r = open_argument_dir(argv[0], &state, e);

    if (r >= 0)
        r = err_wrap(e, buf_read_fd(&text, STDIN_FILENO, e), "the text to sign");
    if (r >= 0)
        r = attest_key_open(state, key, e);
    if (r < 0)
        return r;
    r = attest_envelope_write(key, buf_str(&text), &out, e);
    crypto_wipe(key, sizeof key);
    return r < 0 ? r : print_json_output(&out, e);
}

/* verify KEY MANIFEST DIR */
static int run_attest_verify(char **argv, struct err *e)
{
    AUTO(attest_files_done) struct attest_files files = { 0 };
    AUTO(buf_done)
    struct buf text = BUF_INIT(ATTEST_TEXT_MAX), envelope = BUF_INIT(ATTEST_ENVELOPE_MAX);
    AUTO_CLOSE int manifest = open(argv[1], O_RDONLY | O_CLOEXEC), dir = -1;
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    int r = attest_public_read(AT_FDCWD, argv[0], key, e);

    if (r >= 0 && manifest < 0)
        r = err_sys(e, "%s", argv[1]);
    if (r >= 0)
        r = open_argument_dir(argv[2], &dir, e);
    if (r >= 0)
        r = err_wrap(e, buf_read_fd(&envelope, manifest, e), "%s", argv[1]);
    if (r >= 0)
        r = err_wrap(e, attest_envelope_read(key, buf_str(&envelope), &text, e), "%s", argv[1]);
    if (r >= 0)
        r = attest_files_read(&files, dir, e);
    if (r >= 0)
        r = attest_verify(buf_str(&text), &files, stdout, e);
    if (r == 0)
        printf("%zu file%s unchanged since %s signed\n", files.n, files.n == 1 ? " is" : "s are",
               files.n == 1 ? "it was" : "they were");
    return r > 0 ? DIFFERENT : r;
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(char **argv, struct err *e); /* >= 0: an exit status */
} tasks[] = { { "list", 5, run_attest_list },
              { "changes", 1, run_attest_changes },
              { "sign", 1, run_attest_sign },
              { "verify", 3, run_attest_verify } };

int attest_tool_main(int argc, char **argv)
{
    struct err e;

    for (size_t i = 0; i < COUNT_OF(tasks); i++)
        if (argc == tasks[i].arguments + 2 && strcmp(argv[1], tasks[i].name) == 0) {
            int r = tasks[i].run(argv + 2, &e);

            return r < 0 ? print_attest_error(&e) : r;
        }
    fputs("sandboxer-seal: a part of sandboxer, which calls it: list, changes, sign, verify\n",
          stderr);
    return MISUSED;
}
