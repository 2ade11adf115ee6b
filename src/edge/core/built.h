/* Templates that E2B's clients have built: a snapshot, and how to begin in it. There are few; all
 * of them are in memory, and one setting of the store. */
#ifndef API_E2B_BUILT_H
#define API_E2B_BUILT_H

#include "api/call.h"

enum {
    BUILT_MAX = 256,
    BUILT_PER_OWNER = BUILT_MAX / 4,
    BUILT_NAME_MAX = 63,
    BUILT_TEXT_MAX = 4096
};

struct built {
    const char *id, *build, *name, *snapshot;
    const char *user, *workdir; /* of whoever names none; "": as everywhere */
    const char *start, *ready;  /* what runs in a new sandbox, and what tells that it is up; "" */
    struct json_map env;
    int64_t created_ns;
};

int built_open(struct api *a, struct err *e); /* blocks: before the loop runs */
void built_close(struct api *a);

/* By its id or name, if the caller sees its snapshot; else NULL. Borrowed until the next turn of
 * the loop. */
const struct built *built_find(const struct call *c, struct str name);
/* What the call's sandbox was made from; NULL: it was not built. */
const struct built *built_of_sandbox(struct call *c);
/* That one of a snapshot; NULL: it is not a template's. */
const struct built *built_of_snapshot(const struct api *a, const char *snapshot);
/* What came of a build; NULL: nothing, or it was built again since. */
const struct built *built_of_build(const struct api *a, const char *build);
void built_each(const struct call *c, void (*each)(void *user, const struct built *b), void *user);

/* Adds one in place of the owner's older one of its name, or takes one away (`id`). Done when that
 * is on disk. -ERR_QUOTA: the owner, or the family of tokens, has as many as it may have. */
typedef void built_fn(void *user, int r, const struct err *e);
void built_put(struct api *a, const char *owner, const char *family, const struct built *new,
               const char *instead, built_fn *done, void *user);
void built_remove(struct api *a, const char *id, built_fn *done, void *user);

#endif
