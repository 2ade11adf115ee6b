/* What the system said inside a sandbox, as an error of the request. */
#ifndef EXTENSIONS_FAULT_H
#define EXTENSIONS_FAULT_H

#include "base/err.h"

/* A file or program inside that is missing, closed or full is the caller's business; the same errno
 * from our own files and sockets is not. So only what was heard from inside goes through here.
 * ERR_SYS for what is nobody's mistake. */
enum err_code ext_fault_code(int sys);

#endif
