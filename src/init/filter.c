#include "init/init.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "init/filter_pass.h"
#include "init/filter_programs.h"
#include "proc/sys.h"

enum { FILTER_ROOM = 256 };

_Static_assert(COUNT_OF(filter_plain) <= FILTER_ROOM &&
                   COUNT_OF(filter_with_set_ids) <= FILTER_ROOM,
               "the copy has room");

/* Every pass in the program becomes the one that was drawn; how many there were. */
static int write_pass(struct sock_filter *code, size_t n, uint32_t pass, uint32_t drawn)
{
    int found = 0;

    for (size_t i = 0; i < n; i++)
        if (BPF_CLASS(code[i].code) == BPF_JMP && code[i].k == pass) {
            code[i].k = drawn;
            found++;
        }
    return found;
}

static int load(const struct sock_filter *program, size_t n, struct err *e)
{
    struct sock_filter code[FILTER_ROOM];
    struct sock_fprog p = { .len = (unsigned short)n, .filter = code };

    if (getrandom(sys_openat2_pass, sizeof sys_openat2_pass, 0) != sizeof sys_openat2_pass)
        return err_sys(e, "drawing random numbers");
    memcpy(code, program, n * sizeof code[0]);
    if (write_pass(code, n, FILTER_PASS_FIRST, sys_openat2_pass[0]) < 1 ||
        write_pass(code, n, FILTER_PASS_SECOND, sys_openat2_pass[1]) < 1)
        return err_set(e, ERR_BUG, "the system call filter has no place for its pass");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
        return err_sys(e, "loading the system call filter");
    return 0;
}

int filter_load(bool may_set_ids, struct err *e)
{
    return may_set_ids ? load(filter_with_set_ids, COUNT_OF(filter_with_set_ids), e)
                       : load(filter_plain, COUNT_OF(filter_plain), e);
}
