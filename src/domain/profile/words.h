/* SPDX-License-Identifier: Apache-2.0 */
/* Validates the names and paths in profiles. Each function checks the whole of s. */
#ifndef DOMAIN_PROFILE_WORDS_H
#define DOMAIN_PROFILE_WORDS_H

#include "base/str.h"

enum { WORD_NAME_MAX = 63, WORD_PATH_MAX = 255 };

bool word_name(struct str s);       /* agent-dev: a-z, 0-9 and '-' inside; at most WORD_NAME_MAX */
bool word_profile(struct str s);    /* profile.NAME */
bool word_backend(struct str s);    /* ext.NAME */
bool word_place(struct str s);      /* of a host: labels with dots between; or ext.NAME */
bool word_path(struct str s);       /* absolute, without "//", ".", ".." and a trailing '/' */
bool word_user(struct str s);       /* a user name, or a number up to 65535 */
bool word_secret(struct str s);     /* letters, digits and _ . / : - ; at most 128 */
bool word_variable(struct str s);   /* name of an environment variable */
bool word_image(struct str s);      /* printable ASCII without blanks, not starting with '-' */
bool word_kernel(struct str s);     /* nested-seccomp, …: parts of the kernel, lib/ipc/kernel.h */
bool word_capability(struct str s); /* CHOWN, …: a capability that can be granted */

/* A rule for a member of a struct: a text that may be NULL, or a list of texts. */
struct word_rule {
    const char *path; /* name in messages: "route.gpu" */
    size_t offset;
    bool (*good)(struct str s);
    const char *wanted; /* "a name of a-z, 0-9 and '-'" */
    bool list;          /* struct json_strs; else const char * */
};
#define WORD_TEXT(type, path, member, good, wanted)                                                \
    {                                                                                              \
        path, offsetof(type, member), good, wanted, false                                          \
    }
#define WORD_LIST(type, path, member, good, wanted)                                                \
    {                                                                                              \
        path, offsetof(type, member), good, wanted, true                                           \
    }

enum { WORD_RULE_PATH = 64 };

/* Returns what the first invalid member must be, and its path; NULL if all are valid. */
const char *word_rules_broken(const struct word_rule *rules, size_t n, const void *of,
                              char ret_path[static WORD_RULE_PATH]);

#endif
