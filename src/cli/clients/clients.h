/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that start MCP servers: where each keeps its configuration, and its form. */
#ifndef CLI_CLIENTS_CLIENTS_H
#define CLI_CLIENTS_CLIENTS_H

#include <limits.h>

#include "cli/clients/json_edit.h"

enum client_scope { CLIENT_PROJECT, CLIENT_USER, CLIENT_SCOPES };
extern const char *const client_scopes[CLIENT_SCOPES]; /* "project", "user" */

struct client_program {
    const char *name;    /* a word */
    const char *title;   /* as its vendor writes it */
    const char *program; /* is it installed? */
    /* CLIENT_PROJECT: in the project. CLIENT_USER: in $HOME, or the second one in the directory that
     * the variable names. */
    const char *files[CLIENT_SCOPES];
    const char *home_variable, *home_file;
    const char *servers; /* the member or table of all servers */
    const char *type;    /* a member "type" of an entry; NULL: none */
    /* The directory of the project, in its terms; NULL: a directory must be named. */
    const char *workspace[CLIENT_SCOPES];
    const char *next; /* the next step of the person, a sentence */
    enum client_scope usual;
    bool toml;
    struct json_dialect dialect;
};

extern const struct client_program clients[];
extern const size_t client_count;
extern const char client_names[]; /* of all of them, separated by blanks */

const struct client_program *client_find(const char *name); /* NULL: unknown */

/* The path of its file: relative to the project, or absolute. */
int client_path(const struct client_program *c, enum client_scope scope, char *out, size_t cap,
                struct err *e);

enum { CLIENT_ARGUMENTS_MAX = 600 };

/* Our entry. */
struct client_entry {
    const char *command;
    const char *arguments[CLIENT_ARGUMENTS_MAX];
    size_t n;
};

/* Appends the text with our entry to `out`, whose ceiling is JSON_EDIT_MAX; members of an entry that
 * are not ours stay. 1, or 0 if it has this entry. A NUL follows the text. -ERR_INVALID as for
 * json_edit_set() and toml_edit_set(), -ERR_CONFLICT if the name belongs to a server of another
 * kind. */
int client_add(const struct client_program *c, struct str text, const struct client_entry *entry,
               struct buf *out, struct err *e);
/* The same without our entry. 0: it is not there. */
int client_remove(const struct client_program *c, struct str text, struct buf *out, struct err *e);

#endif
