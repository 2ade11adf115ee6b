/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's configuration. The daemon reads, checks and writes it: these verbs run it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/daemon.h"
#include "cli/verbs/verbs.h"

static int make_config_parents(char *path, struct err *e)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "making %s", path);
        *at = '/';
    }
    return 0;
}

static int run_config_init(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO_CLOSE int file = -1;
    char path[PATH_MAX];
    struct err e;
    int status;

    if (argv[0] ? !str_copy(str_from(argv[0]), path, sizeof path)
                : daemon_config_path(path, sizeof path, &e) < 0)
        return verb_misused(c->verb, "%s", argv[0] ? "the path is too long" : e.msg);
    if (make_config_parents(path, &e) < 0)
        return verb_failed(c->verb, "%s", e.msg);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 && errno == EEXIST) {
        verb_failed(c->verb,
                    "%s exists, and is not overwritten; 'sandboxer config check' checks it", path);
        return EXIT_CONFLICT;
    }
    if (file < 0)
        return verb_failed(c->verb, "%s: %s", path, strerror(errno));
    status = daemon_print("--default-config", NULL, file, &e);
    if (status != 0 || fchmod(file, 0644) < 0) {
        unlink(path);
        return status < 0 ? verb_failed(c->verb, "%s", e.msg) : EXIT_TOOL_FAILED;
    }
    printf("%s written; every line is a comment with the default\n", path);
    return 0;
}

const struct verb verb_config_init = {
    .name = "config init",
    ARGUMENTS("[FILE]", 0, 1, COMPLETE_FILE),
    .summary = "write a configuration of comments: all fields, with their defaults",
    .text = "Without FILE /etc/sandboxer/sandboxer.yaml for root, and\n"
            "~/.config/sandboxer/sandboxer.yaml for others. A file that exists is not\n"
            "overwritten (exit status 4). Remove the '#' of a field, and of the names above it,\n"
            "to change its value.\n"
            "\n"
            "  sandboxer config init\n",
    .run = run_config_init,
};

/* Runs the daemon with this option: its output and messages are ours. */
static int print_daemon_config(const struct verb *v, const char *option, const char *file, int out)
{
    struct err e;
    int status = daemon_print(option, file, out, &e);

    return status < 0 ? verb_failed(v, "%s", e.msg) : status ? EXIT_USAGE : 0;
}

static int run_config_show(struct api_call *c, void *options, int argc, char **argv)
{
    return print_daemon_config(c->verb, "--show-config", argv[0], STDOUT_FILENO);
}

const struct verb verb_config_show = {
    .name = "config show",
    ARGUMENTS("[FILE]", 0, 1, COMPLETE_FILE),
    .summary = "print the configuration in force, and where each value comes from",
    .text = "The settings of a daemon that is started now; FILE instead of the usual files.\n"
            "A value without a source is the default.\n"
            "\n"
            "  sandboxer config show\n",
    .run = run_config_show,
};

static int run_config_check(struct api_call *c, void *options, int argc, char **argv)
{
    int status = print_daemon_config(c->verb, "--check-config", argv[0], -1);

    if (status == 0)
        printf("%s: valid; a daemon could start\n", argv[0] ? argv[0] : "the configuration");
    return status;
}

const struct verb verb_config_check = {
    .name = "config check",
    ARGUMENTS("[FILE]", 0, 1, COMPLETE_FILE),
    .summary = "check a configuration, and whether a daemon could start with it",
    .text = "By the daemon's own checks, of the state directory and the socket too. A mistake is\n"
            "printed with file, line and field, and the exit status is 2.\n"
            "\n"
            "  sandboxer config check sandboxer.yaml\n",
    .run = run_config_check,
};
