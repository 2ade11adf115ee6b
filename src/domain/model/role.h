/* How far somebody is trusted: by configuration, a token or the kernel's word on a socket, never by
 * what it says of itself. Each may do what the one before may. */
#ifndef MODEL_ROLE_H
#define MODEL_ROLE_H

enum role {
    ROLE_APPRENTICE,
    ROLE_JOURNEYMAN,
    ROLE_MASTER, /* reviews what the others may not do alone */
    ROLE_COUNT_,
};

extern const char *const role_names[ROLE_COUNT_ + 1];

static inline enum role role_least(enum role a, enum role b)
{
    return a < b ? a : b;
}

#endif
