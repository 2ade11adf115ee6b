/* SPDX-License-Identifier: Apache-2.0 */
/* An agent in a sandbox (verbs/agent.c): its recipe, its program, its sandbox, its credentials, and
 * the end of its workspace. Each function with a status returns 0 or an exit status, after a
 * message. */
#ifndef CLI_AGENT_AGENT_H
#define CLI_AGENT_AGENT_H

#include <limits.h>

#include "base/id.h"
#include "cli/answer.h"
#include "cli/run/box_options.h"
#include "cli/run/network_options.h"
#include "domain/agent/recipe.h"

#define AGENT_DEFAULT_PROFILE "profile.agent-dev"
#define AGENT_WORKSPACE       "/workspace"
#define AGENT_PREFIX          "/opt/agents" /* inside: programs that are not the host's own */

enum { AGENT_MEMORY_MAX = 32 << 20, AGENT_SANDBOX_MAX = 64, AGENT_PROGRAM_MAX = 256 };

struct agent_options {
    struct common common;
    const char *name, *profile, *ttl, *checkpoint, *version, *sync, *resume, *workspace;
    bool list, install, pass_key, pass_login, keep;
    struct option_list env;
    struct box_options box;
    struct network_options network;
};

enum { AGENT_FILES_MAX = 2 * AGENT_LIST_MAX };

/* Files to make inside. */
struct agent_files {
    const char *paths[AGENT_FILES_MAX];
    size_t n;
    struct option_list texts; /* TEXT_i=… for the i-th */
};

struct agent {
    const struct verb *verb;
    const struct agent_options *o;
    struct arena arena;
    const struct agent_entry *entry; /* NULL: any command */
    const char *dir;                 /* the workspace here; absolute */
    bool mounted;                    /* the agent writes to it; else it has a copy */
    char *const *arguments; /* of the agent; of any command, with its name; ended by NULL */
    char program[AGENT_PROGRAM_MAX]; /* inside */
    char copied[PATH_MAX];           /* here: a file or package to copy in; "": nothing */
    char target[PATH_MAX];           /* inside: its place */
    char snapshot[ID_MAX];           /* with the installed program; "": none */
    char sandbox[AGENT_SANDBOX_MAX]; /* "": none yet */
    long long undos;                 /* of the sandbox, before the agent */
    struct agent_files files;
};

/* --- recipes.c --- */

/* Reads all recipes; the list is on the arena. */
int agents_read(struct arena *a, struct json_objects *ret, struct err *e);
/* Finds a recipe that can be used. A status. */
int agent_find_recipe(struct agent *a, const char *name);

/* --- program.c, install.c --- */

/* Finds the program: here, or in an earlier installation; with --install or --version installs it
 * from npm. A status. */
int agent_find_program(struct agent *a);
/* Finds the newest snapshot with the package, or with `again` makes one. A status. */
int agent_install(struct agent *a, bool again);

/* --- box.c --- */

/* Creates the sandbox with its workspace and files. A status. */
int agent_create_box(struct agent *a);
/* Makes the sandbox of --resume run again, and reads its recipe from its record. A status. */
int agent_resume_box(struct agent *a);
/* One request without a body to a sandbox: "resume", "stop". A status. */
int agent_change_box(const struct agent *a, const char *sandbox, const char *change,
                     const char *doing);
/* Runs a program in it to its end, without stdin; with `tty` on our terminal. Its status. */
int agent_run_inside(const struct agent *a, const char *sandbox, const char *const *argv,
                     const struct option_list *env, bool tty);

/* --- checkpoints.c --- */

/* The interval of checkpoints; NULL: none. */
const char *agent_checkpoint_interval(const struct agent_options *o);
/* Takes a checkpoint before the agent, so that all that it does can be undone. Reports a failure. */
void agent_take_checkpoint(struct agent *a);
/* Whether the sandbox went back to a checkpoint since then, which has ended the agent. */
bool agent_was_undone(const struct agent *a);

/* --- setup.c --- */

/* Collects the files of the recipe and, with --pass-login, the login. A status. */
int agent_collect_files(struct agent *a);
/* Copies the program in, and makes the files where the sandbox has none. A status. */
int agent_set_up(struct agent *a);
/* The variables of the agent, with --pass-key the credentials. A status. */
int agent_variables(struct agent *a, struct option_list *ret);

/* --- ending.c --- */

/* After the agent's end: shows the changes, brings them back as --sync says, and destroys the
 * sandbox, or stops it if something stays inside. A status. */
int agent_settle(struct agent *a);

#endif
