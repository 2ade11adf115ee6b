/* SPDX-License-Identifier: Apache-2.0 */
/* Translates limits to settings of both cgroup versions. */
#ifndef ENGINE_RUNTIME_CGROUP_LIMITS_H
#define ENGINE_RUNTIME_CGROUP_LIMITS_H

#include "engine/runtime/cgroup.h"
#include "engine/runtime/cgroup_file.h"

enum { CGROUP_SETTINGS_MAX = 3 };

extern const char *const cgroup_controller_names[]; /* by enum cgroup_controller */

/* Enables the controllers of `dir` for its child groups. Returns a bit per enabled controller. */
unsigned cgroup_enable_controllers(int dir);

/* Writes the settings of one controller (memory, pids or cpu); 0 in `l`: no limit. Returns their
 * number. */
int cgroup_settings_v1(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);
int cgroup_settings_v2(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);
/* Bytes per second, of reading and of writing, on the block device "MAJOR:MINOR"; "": none. */
int cgroup_settings_io(const char *disk, uint64_t bytes,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX]);

#endif
