/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files of a test: in a directory of their own, which goes away. */
#ifndef TESTS_YAML_FILES_H
#define TESTS_YAML_FILES_H

#include "domain/config/sources.h"

struct yaml_files {
    char dir[32];
    char paths[SOURCES_MAX][64];
    size_t n;
};

/* Also unsets every variable that a configuration depends on. */
void yaml_files_make(struct yaml_files *f);
void yaml_files_done(struct yaml_files *f);

/* A file with this text, behind the others; the result is its path. */
const char *yaml_files_add(struct yaml_files *f, const char *text);

/* All of them as sources. */
struct sources yaml_files_sources(const struct yaml_files *f);

#endif
