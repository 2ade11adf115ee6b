/* The names and paths that profiles are made of. Each function checks the whole of s. */
#ifndef PROFILE_WORDS_H
#define PROFILE_WORDS_H

#include "base/str.h"

enum { WORD_NAME_MAX = 63, WORD_PATH_MAX = 255 };

bool word_char(char c, const char *more); /* a-z, 0-9, or one of `more` */

bool word_name(struct str s);       /* agent-dev: a-z, 0-9 and '-' inside; at most WORD_NAME_MAX */
bool word_profile(struct str s);    /* profile.NAME */
bool word_extension(struct str s);  /* ext.NAME */
bool word_place(struct str s);      /* of a host: labels with dots between; or ext.NAME */
bool word_path(struct str s);       /* absolute, without "//", ".", ".." and a trailing '/' */
bool word_user(struct str s);       /* a user's name, or a number up to 65535 */
bool word_secret(struct str s);     /* letters, digits and _ . / : - ; at most 128 */
bool word_variable(struct str s);   /* a name of the environment */
bool word_image(struct str s);      /* printable ASCII without blanks, not starting with '-' */
bool word_capability(struct str s); /* CHOWN, …: what a sandbox can be given at all */

#endif
