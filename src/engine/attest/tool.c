#include "seal/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/units.h"
#include "crypto/secret.h"
#include "proc/caps.h"
#include "proc/confine.h"
#include "seal/changes.h"
#include "seal/envelope.h"
#include "seal/files.h"
#include "seal/key.h"
#include "seal/verify.h"
#include "tree/tree.h"

/* Exit statuses; the command line hands them on. */
enum { DIFFERENT = 1, MISUSED = 2, MISSING = 3, DENIED = 5, FAILED = 125 };

/* With `changes`, and for the user that has no number in a namespace. */
enum { LAYER_FD = 3, LOWER_FD, USERNS_FD, COMPLAINT_MAX = 4096, UNMAPPED = 65534 };

static int complain(const struct err *e)
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

static int open_dir(const char *path, int *ret, struct err *e)
{
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, "%s", path) : 0;
}

static int read_all(int file, struct buf *out, const char *what, struct err *e)
{
    char *room;
    ssize_t n;

    do {
        if (buf_room(out, 64 << 10, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "%s: longer than %zu bytes", what, out->max);
        n = read(file, room, 64 << 10);
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading %s", what);
        buf_grew(out, n > 0 ? (size_t)n : 0);
    } while (n != 0);
    return 0;
}

static int print(const struct buf *b, struct err *e)
{
    if (fwrite(b->p, 1, b->n, stdout) != b->n || fputc('\n', stdout) == EOF ||
        fflush(stdout) == EOF)
        return err_sys(e, "writing the answer");
    return 0;
}

/* list DIR BEFORE FILE-BYTES ALL-BYTES FILES: what is there, what changed, what may not leave. */
static int run_list(char **argv, struct err *e)
{
    AUTO(seal_files_done) struct seal_files files = { 0 }, before = { 0 };
    AUTO(buf_done) struct buf out = BUF_INIT(SEAL_TEXT_MAX);
    struct seal_limits limits = { 0 };
    AUTO_CLOSE int dir = -1, old = -1;
    struct json_writer w;
    int r = open_dir(argv[0], &dir, e);

    if (!str_to_u64(str_from(argv[2]), &limits.file_bytes) ||
        !str_to_u64(str_from(argv[3]), &limits.bytes) ||
        !str_to_u64(str_from(argv[4]), &limits.files))
        return err_set(e, ERR_INVALID, "limits are numbers");
    if (r >= 0)
        r = open_dir(argv[1], &old, e);
    if (r >= 0)
        r = seal_files_read(&files, dir, e);
    if (r >= 0)
        r = seal_files_read(&before, old, e);
    if (r < 0)
        return r;
    json_writer_init(&w, &out, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("deleted"));
    seal_compare(&files, &before, &w);
    json_key(&w, STR("files"));
    seal_files_write(&files, &w);
    json_key(&w, STR("violations"));
    seal_violations_write(&files, &limits, &w);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : print(&out, e);
}

/* From here on nothing is reached but the layer, and as the sandbox's root. What is not mapped in
 * the namespace (root of the machine, or a plain user's own id) is left behind. */
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
        return err_sys(e, "giving up groups");
    if (geteuid() == UNMAPPED && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        return err_sys(e, "becoming the sandbox's root");
    return caps_set(keep, 0, e) < 0 ? -(int)ERR_SYS : confine_enter(&c, e);
}

/* Whoever started us says when; if it ends first, so do we. */
static int await_end(struct err *e)
{
    char c;

    if (write(STDOUT_FILENO, "\n", 1) != 1)
        return err_sys(e, "saying that we are ready");
    return read(STDIN_FILENO, &c, 1) == 1 ? 0 : err_set(e, ERR_UPSTREAM, "nobody asks any more");
}

/* changes PARTS, with the writable layer, its lower root and the user namespace as descriptors:
 * reads the layer, says a newline, waits for one, reads it again and tells the difference. */
static int run_changes(char **argv, struct err *e)
{
    AUTO(seal_files_done) struct seal_files before = { 0 }, after = { 0 };
    AUTO(buf_done) struct buf out = BUF_INIT(SEAL_TEXT_MAX);
    struct seal_parts parts;
    struct json_writer w;
    int r = seal_parts_parse(str_from(argv[0]), &parts, e);

    if (r >= 0)
        r = enter_sandbox(e);
    if (r >= 0)
        r = seal_layer_read(&before, LAYER_FD, &parts, e);
    if (r >= 0)
        r = await_end(e);
    if (r >= 0)
        r = seal_layer_read(&after, LAYER_FD, &parts, e);
    if (r < 0)
        return r;
    json_writer_init(&w, &out, JSON_COMPACT);
    seal_changes_write(&before, &after, LOWER_FD, &w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : print(&out, e);
}

/* sign STATE: the text on stdin, in an envelope. */
static int run_sign(char **argv, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(SEAL_TEXT_MAX), out = BUF_INIT(SEAL_ENVELOPE_MAX);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    AUTO_CLOSE int state = -1;
    int r = open_dir(argv[0], &state, e);

    if (r >= 0)
        r = read_all(STDIN_FILENO, &text, "what to sign", e);
    if (r >= 0)
        r = seal_key_open(state, key, e);
    if (r < 0)
        return r;
    r = seal_envelope_write(key, buf_str(&text), &out, e);
    crypto_wipe(key, sizeof key);
    return r < 0 ? r : print(&out, e);
}

/* verify KEY MANIFEST DIR */
static int run_verify(char **argv, struct err *e)
{
    AUTO(seal_files_done) struct seal_files files = { 0 };
    AUTO(buf_done)
    struct buf text = BUF_INIT(SEAL_TEXT_MAX), envelope = BUF_INIT(SEAL_ENVELOPE_MAX);
    AUTO_CLOSE int manifest = open(argv[1], O_RDONLY | O_CLOEXEC), dir = -1;
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    int r = seal_public_read(AT_FDCWD, argv[0], key, e);

    if (r >= 0 && manifest < 0)
        r = err_sys(e, "%s", argv[1]);
    if (r >= 0)
        r = open_dir(argv[2], &dir, e);
    if (r >= 0)
        r = read_all(manifest, &envelope, argv[1], e);
    if (r >= 0)
        r = err_wrap(e, seal_envelope_read(key, buf_str(&envelope), &text, e), "%s", argv[1]);
    if (r >= 0)
        r = seal_files_read(&files, dir, e);
    if (r >= 0)
        r = seal_verify(buf_str(&text), &files, stdout, e);
    if (r == 0)
        printf("%zu files are as they were signed\n", files.n);
    return r > 0 ? DIFFERENT : r;
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(char **argv, struct err *e); /* >= 0: an exit status */
} tasks[] = { { "list", 5, run_list },
              { "changes", 1, run_changes },
              { "sign", 1, run_sign },
              { "verify", 3, run_verify } };

int seal_tool_main(int argc, char **argv)
{
    struct err e;

    for (size_t i = 0; i < COUNT_OF(tasks); i++)
        if (argc == tasks[i].arguments + 2 && strcmp(argv[1], tasks[i].name) == 0) {
            int r = tasks[i].run(argv + 2, &e);

            return r < 0 ? complain(&e) : r;
        }
    fputs("sandboxer-seal: a part of sandboxer, which calls it: list, changes, sign, verify\n",
          stderr);
    return MISUSED;
}
