/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the libraries that a program needs, and where they are: read from the files, because
 * the control plane may not start the dynamic loader to ask it. */
#ifndef LIB_SSH_ELF_H
#define LIB_SSH_ELF_H

#include <stdbool.h>

#include "base/str.h"

enum { ELF_NEEDED_MAX = 64 };

struct elf_needs {
    struct str loader; /* PT_INTERP; empty: none */
    struct str needed[ELF_NEEDED_MAX];
    size_t n;
};

/* Reads a 64-bit, little-endian ELF file of this machine's architecture. Everything points into
 * `file`. False if it is not one, or needs more than fits. */
bool elf_read(struct str file, struct elf_needs *ret);

/* The path that /etc/ld.so.cache (glibc's format 1.1) has for a library of this architecture.
 * False: none. */
bool elf_find_cached(struct str cache, struct str name, struct str *ret);

#endif
