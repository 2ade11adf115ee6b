/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `sandboxer run`. */
#ifndef CLI_RUN_RUN_OPTIONS_H
#define CLI_RUN_RUN_OPTIONS_H

#include <stdint.h>

#include "cli/run/box_options.h"
#include "cli/run/network_options.h"
#include "cli/run/untrusted.h"
#include "engine/runtime/plan.h"

enum { RUN_VARIABLES_MAX = 1024, RUN_DEFAULT_PIDS = 1024 };

#define RUN_DEFAULT_MEMORY (UINT64_C(4) << 30)
#define RUN_DEFAULT_DISK   (UINT64_C(1) << 30)

struct run_options {
    const char *image;
    bool squash_owners, strict, tty, interactive, rm, quiet, writable;
    const char *system, *side_channels; /* NULL: as usual */
    struct box_options box;
    uint32_t kernel; /* of enum kernel_bits */
    int64_t timeout_ns;
    const char *env[RUN_VARIABLES_MAX + 16];
    size_t n_env;
    struct network_options network;
    struct untrusted_options untrusted;
};

#define RUN_OPTIONS_DEFAULT                                                                        \
    {                                                                                              \
        .box = { .memory = RUN_DEFAULT_MEMORY,                                                     \
                 .disk = RUN_DEFAULT_DISK,                                                         \
                 .pids = RUN_DEFAULT_PIDS },                                                       \
        .network = NETWORK_OPTIONS_NONE                                                            \
    }

enum { RUN_OPTION_COUNT = 41 };
extern const struct option_spec run_option_specs[RUN_OPTION_COUNT];

/* For the rows of other verbs; `to` is a struct run_options. */
int run_set_image(void *to, const char *value, struct err *e);
int run_set_env(void *to, const char *value, struct err *e);
int run_set_timeout(void *to, const char *value, struct err *e);

/* Adds the variables that a program expects to those of --env, by the precedence of
 * lib/ipc/environment.h; for an untrusted program also the output directory. */
void run_options_fill_environment(struct run_options *o);

#endif
