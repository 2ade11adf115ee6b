/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ssh_key.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/state_dir.h"
#include "cli/text_file.h"
#include "lib/proc/spawn.h"

#define DIRECTORY "ssh"
#define NAME      "id_ed25519"

static int key_path(const char *suffix, char *out, size_t cap, struct err *e)
{
    char state[PATH_MAX];
    int r = state_dir_path(state, sizeof state, e);

    if (r < 0)
        return r;
    return snprintf(out, cap, "%s/" DIRECTORY "/" NAME "%s", state, suffix) < (int)cap
               ? 0
               : state_dir_fail_size(state, e);
}

/* With our own environment: ssh-keygen is found in the caller's PATH. */
static int run_keygen(char *file, struct err *e)
{
    char *const argv[] = { (char[]){ "ssh-keygen" },
                           (char[]){ "-q" },
                           (char[]){ "-t" },
                           (char[]){ "ed25519" },
                           (char[]){ "-N" },
                           (char[]){ "" },
                           (char[]){ "-C" },
                           (char[]){ "sandboxer" },
                           (char[]){ "-f" },
                           file,
                           NULL };
    int status;
    pid_t pid = fork();

    if (pid < 0)
        return err_sys(e, "starting ssh-keygen");
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    if (spawn_wait(pid, &status, e) < 0)
        return -(int)ERR_SYS;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(e, ERR_UNSUPPORTED, "there is no ssh-keygen here: install openssh-client");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(e, ERR_UPSTREAM, "ssh-keygen has made no key");
}

static void remove_ssh_key_files(const char *directory)
{
    static const char *const files[] = { NAME, NAME ".pub" };
    char path[PATH_MAX];

    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (snprintf(path, sizeof path, "%s/%s", directory, files[i]) < (int)sizeof path)
            unlink(path);
    rmdir(directory);
}

/* Renames a directory with both files into place, so that concurrent processes all find the same
 * pair. */
static int make_pair(const char *state, struct err *e)
{
    char made[PATH_MAX], file[PATH_MAX], place[PATH_MAX];
    int r;

    if (snprintf(made, sizeof made, "%s/" DIRECTORY ".XXXXXX", state) >= (int)sizeof made ||
        snprintf(place, sizeof place, "%s/" DIRECTORY, state) >= (int)sizeof place)
        return state_dir_fail_size(state, e);
    if (!mkdtemp(made)) /* 0700 */
        return err_sys(e, "making %s", made);
    r = snprintf(file, sizeof file, "%s/" NAME, made) < (int)sizeof file
            ? run_keygen(file, e)
            : state_dir_fail_size(state, e);
    if (r >= 0 && rename(made, place) < 0 && errno != ENOTEMPTY && errno != EEXIST)
        r = err_sys(e, "making %s", place);
    remove_ssh_key_files(made);
    return r;
}

static int check_file(const char *path, struct err *e)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return err_sys(e, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, ERR_DENIED, "%s: must be a file that only you may read (chmod 600)",
                       path);
    return 0;
}

int ssh_key_ensure(char *out, size_t cap, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    char state[PATH_MAX];
    int r = key_path("", out, cap, e);

    if (r >= 0 && access(out, F_OK) < 0) {
        r = state_dir_open(&dir, e);
        if (r >= 0)
            r = state_dir_path(state, sizeof state, e);
        if (r >= 0)
            r = make_pair(state, e);
    }
    return r < 0 ? r : check_file(out, e);
}

int ssh_key_public(struct buf *ret, struct err *e)
{
    char path[PATH_MAX];
    int r = key_path(".pub", path, sizeof path, e);

    if (r < 0)
        return r;
    r = text_file_read(path, ret, e);
    return r == -(int)ERR_SYS && e->sys == ENOENT
               ? err_set(e, ERR_NOT_FOUND,
                         "%s: there is no key yet; 'sandboxer ssh-config' makes one", path)
               : r;
}
