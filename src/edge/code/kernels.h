/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the programs that run code sessions, one per language. They are not part of a sandbox's
 * image: the interpreter gets them as an argument. */
#ifndef EDGE_CODE_KERNELS_H
#define EDGE_CODE_KERNELS_H

#include <stdbool.h>

#include "base/buf.h"
#include "lib/json/bind.h"

enum { KERNEL_ARGS = 5 };

struct kernel {
    const char *language, *alias;
    const char *argv[KERNEL_ARGS]; /* the last one is the language */
    size_t argc;
    bool raw; /* writes the code's output unencoded (code_output.h) */
    /* An interrupt is for the programs that the code started, too: the kernel waits for them. */
    bool interrupt_tree;
    /* Writes a request, a line for the kernel's stdin. */
    int (*request)(struct buf *out, const char *id, const char *code, const struct json_map *env,
                   struct err *e);
};

/* Finds a kernel by language ("" is Python; upper and lower case are the same), or by the command
 * line of a session; or returns NULL. */
const struct kernel *kernel_find(const char *language);
const struct kernel *kernel_of(struct json_strs argv);
bool kernel_skips_lines(struct json_strs argv); /* that are no requests; older ones fail on them */
extern const char kernel_languages[];           /* for messages */

/* The kernel.* files of this folder, embedded; each terminated by NUL. */
extern const char kernel_python_py[], kernel_javascript_js[], kernel_bash_sh[];
extern const size_t kernel_python_size, kernel_javascript_size, kernel_bash_size;

#endif
