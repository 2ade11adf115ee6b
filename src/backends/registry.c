#include "extensions/extension.h"

const struct extension_ops *const extensions[] = { &extension_local, NULL };

const struct extension_ops *extension_find(struct str id)
{
    for (size_t i = 0; extensions[i]; i++)
        if (str_eq(id, str_from(extensions[i]->id)))
            return extensions[i];
    return NULL;
}
