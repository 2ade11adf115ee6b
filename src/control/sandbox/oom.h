/* What a sandbox's limits did to it: kept in its record and told with the ends of its processes. */
#ifndef CONTROL_OOM_H
#define CONTROL_OOM_H

#include "control/control.h"

/* The box has counted so many OOM kills since it was made. */
void sandbox_note_oom(struct sandbox *s, uint32_t kills);
/* Counting begins anew: the sandbox gets another box. */
void sandbox_reset_oom(struct sandbox *s);

/* The end of a process or file operation in it, with the limits that it ran under. */
struct ext_end sandbox_end(const struct sandbox *s, const struct ext_end *end);

#endif
