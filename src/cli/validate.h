/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that ask the daemon whether a file is right. */
#ifndef CLI_VALIDATE_H
#define CLI_VALIDATE_H

#include "cli/answer.h"

struct file_validation {
    const char *what; /* "profiles": a collection of the interface */
    const struct answer_kind *problem;
    bool many; /* problems are rows; else there is one */
};

/* Sends the file of the first argument and shows what is wrong with it: an exit status. */
int validate_file(const struct verb *v, int argc, char **argv, const struct file_validation *x);

#endif
