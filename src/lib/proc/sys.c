/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/sys.h"

uint32_t sys_openat2_pass[2];
