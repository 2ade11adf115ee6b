/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/worker.h"

int layer_worker_remove(struct layer_worker *k, struct err *e)
{
    return storage_remove(&k->storage, k->job.name, e);
}
