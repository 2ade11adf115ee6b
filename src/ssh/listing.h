/* What the dynamic loader says that a program needs (LD_TRACE_LOADED_OBJECTS). */
#ifndef SSH_LISTING_H
#define SSH_LISTING_H

#include <stdbool.h>

#include "base/str.h"

struct ssh_needed {
    struct str path;    /* absolute */
    bool loader;        /* it is the loader itself */
    struct str missing; /* or: the name of what is not there, and no path */
};

/* The next of them, from the front of the text; false at the end. What the kernel brings and lines
 * that say nothing are passed over. */
bool ssh_listing_next(struct str *rest, struct ssh_needed *ret);

#endif
