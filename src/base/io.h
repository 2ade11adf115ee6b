/* Writing all of it. */
#ifndef CLI_WRITE_H
#define CLI_WRITE_H

#include "base/err.h"
#include "base/str.h"

int write_all(int fd, struct str s, struct err *e);

#endif
