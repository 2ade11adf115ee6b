/* The programs that keep sessions of code, one for each language. They are not part of a sandbox:
 * its interpreter gets them as an argument. */
#ifndef API_E2B_KERNELS_H
#define API_E2B_KERNELS_H

#include <stdbool.h>

#include "base/buf.h"
#include "json/bind.h"

enum { KERNEL_ARGS = 3 };

struct kernel {
    const char *language, *alias;
    const char *argv[KERNEL_ARGS];
    bool raw; /* what the code writes is told as it is (code_output.h) */
    /* One request, as a line on its stdin. */
    int (*request)(struct buf *out, const char *id, const char *code, const struct json_map *env,
                   struct err *e);
};

/* By its language, "" is Python; or by its interpreter. NULL: there is none. */
const struct kernel *kernel_find(const char *language);
const struct kernel *kernel_of(const char *program);
extern const char kernel_languages[]; /* for people */

/* src/api/e2b/kernel.*, embedded; each ended by NUL. */
extern const char kernel_python_py[], kernel_javascript_js[], kernel_bash_sh[];
extern const size_t kernel_python_size, kernel_javascript_size, kernel_bash_size;

#endif
