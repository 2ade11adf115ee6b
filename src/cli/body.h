/* SPDX-License-Identifier: Apache-2.0 */
/* Writes members of a request's body from options; absent options are left out. */
#ifndef CLI_BODY_H
#define CLI_BODY_H

#include "cli/verb.h"
#include "lib/json/writer.h"

void body_text(struct json_writer *w, const char *name, const char *value);
void body_flag(struct json_writer *w, const char *name, bool value); /* only if true */
void body_pairs(struct json_writer *w, const char *name, const struct option_list *pairs);
void body_list(struct json_writer *w, const char *name, const struct option_list *list);

#endif
