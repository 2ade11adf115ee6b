/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher makes these names, and a diff leaves them out. */
#include "engine/storage/skeleton.h"

#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

enum { ALL_MAX = 128 };

static size_t all_paths(const char *ret[static ALL_MAX])
{
    size_t n = 0;

    CHECK(skeleton_dir_count + skeleton_system_count + skeleton_name_count <= ALL_MAX);
    for (size_t i = 0; i < skeleton_dir_count; i++)
        ret[n++] = skeleton_dirs[i].path;
    for (size_t i = 0; i < skeleton_system_count; i++)
        ret[n++] = skeleton_system[i];
    for (size_t i = 0; i < skeleton_name_count; i++)
        ret[n++] = skeleton_names[i].path;
    return n;
}

TEST(every_name_is_there_once_and_behind_its_directory)
{
    const char *paths[ALL_MAX];
    size_t n = all_paths(paths);

    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(paths[i], '/');
        bool parent = !slash;

        for (size_t k = 0; k < i; k++) {
            CHECK(strcmp(paths[i], paths[k]) != 0);
            parent |= slash && strlen(paths[k]) == (size_t)(slash - paths[i]) &&
                      strncmp(paths[k], paths[i], strlen(paths[k])) == 0;
        }
        CHECK(parent);
        CHECK(skeleton_has(paths[i]));
    }
    CHECK(!skeleton_has("etc/shadow") && !skeleton_has("") && !skeleton_has("/etc"));
}

TEST(entries_with_an_action_are_in_etc)
{
    for (size_t i = 0; i < skeleton_name_count; i++) {
        const struct skeleton_name *s = &skeleton_names[i];

        CHECK(s->kind == SKELETON_STEP || strncmp(s->path, "etc/", 4) == 0);
        CHECK((s->kind == SKELETON_LINK) == (s->target != NULL));
    }
}
