/* SPDX-License-Identifier: Apache-2.0 */
/* Build tool: prints the names of this architecture's system calls as a C header. */
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 1024 };

int main(void)
{
    puts("static const char *const call_names[] = {");
    for (int i = 0; i < NUMBERS; i++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);

        if (name)
            printf("    [%d] = \"%s\",\n", i, name);
        free(name);
    }
    puts("};");
    return 0;
}
