/* Limits as the files of control groups say them, for both versions. */
#ifndef RUNTIME_CGROUP_LIMITS_H
#define RUNTIME_CGROUP_LIMITS_H

#include "runtime/cgroup.h"
#include "runtime/cgroup_file.h"

enum { CGROUP_SETTINGS_MAX = 3 };

extern const char *const cgroup_controller_names[]; /* by enum cgroup_controller */

/* Turns on, for the groups in `dir`, the controllers that `dir` has. A bit per controller that is
 * on. */
unsigned cgroup_enable_controllers(int dir);

/* What to write for one controller (memory, pids or cpu); 0 in `l` is no limit. The number of
 * settings. */
int cgroup_settings_v1(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);
int cgroup_settings_v2(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);
/* Bytes per second, of reading and of writing, on the block device "MAJOR:MINOR"; "": none. */
int cgroup_settings_io(const char *disk, uint64_t bytes,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);

#endif
