#include "layers/keeper.h"

int keeper_remove(struct keeper *k, struct err *e)
{
    return storage_remove(&k->storage, k->job.name, e);
}
