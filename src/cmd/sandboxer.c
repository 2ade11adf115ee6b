#include <fcntl.h>
#include <unistd.h>

#include "cli/verb.h"

/* Whoever closed 0, 1 or 2 before starting us must not make a socket of ours take that place. */
static int fill_stdio(void)
{
    int opened = 0;

    for (int fd = 0; fd < 3 && opened >= 0; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            opened = openat(AT_FDCWD, "/dev/null", O_RDWR); /* the lowest that is free: this one */
    return opened < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    return fill_stdio() < 0 ? EXIT_OURS : cli_main(argc, argv);
}
