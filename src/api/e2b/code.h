/* The program that keeps a Python session: src/api/e2b/kernel.py, embedded. */
#ifndef API_E2B_CODE_H
#define API_E2B_CODE_H

#include <stddef.h>

extern const char e2b_kernel_py[]; /* ended by NUL */
extern const size_t e2b_kernel_size;

#endif
