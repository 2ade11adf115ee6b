#include "proc/sys.h"

uint32_t sys_openat2_pass[2];
