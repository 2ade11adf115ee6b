/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include "base/own.h"

static struct proc table[CONTROL_PROCS_MAX];
static size_t used; /* rows at or above this were never used */
static uint32_t last_id;

struct proc *procs_add(void)
{
    size_t i = 0;

    while (i < used && table[i].state != PROC_FREE)
        i++;
    if (i == COUNT_OF(table))
        return NULL;
    if (i == used)
        used++;
    table[i] = (struct proc){ .state = PROC_STARTING, .id = ++last_id, .sync = -1, .conn = -1 };
    return &table[i];
}

uint32_t procs_last(void)
{
    return last_id;
}

void procs_release(struct proc *p)
{
    drop_fd(&p->sync);
    for (int i = 0; i < p->n_stdio; i++)
        drop_fd(&p->stdio[i]);
    p->state = PROC_FREE;
}

struct proc *procs_next(struct proc *after)
{
    size_t i = after ? (size_t)(after - table) + 1 : 0;

    for (; i < used; i++)
        if (table[i].state != PROC_FREE)
            return &table[i];
    return NULL;
}

struct proc *procs_by_pid(pid_t pid)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->pid == pid && p->state != PROC_ENDED)
            return p;
    return NULL;
}

struct proc *procs_by_id(uint32_t id)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->id == id)
            return p;
    return NULL;
}

struct proc *procs_by_sync(int fd)
{
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->sync == fd)
            return p;
    return NULL;
}
