/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/domain/config/yaml_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

void yaml_files_make(struct yaml_files *f)
{
    static const char *const variables[] = {
        "SANDBOXER_SOCKET", "SANDBOXER_STATE", "SANDBOXER_HUB_URL", "SANDBOXER_HOST",
        "XDG_CONFIG_HOME",  "XDG_DATA_HOME",   "XDG_RUNTIME_DIR",
    };

    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", "/home/u", 1);
    f->n = 0;
    snprintf(f->dir, sizeof f->dir, "/tmp/config-XXXXXX");
    CHECK(mkdtemp(f->dir) != NULL);
}

void yaml_files_done(struct yaml_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        unlink(f->paths[i]);
    rmdir(f->dir);
}

const char *yaml_files_add(struct yaml_files *f, const char *text)
{
    char path[sizeof f->paths[0]];
    int fd;

    CHECK(f->n < SOURCES_MAX);
    snprintf(path, sizeof path, "%s/%zu.yaml", f->dir, f->n);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    memcpy(f->paths[f->n], path, sizeof path);
    return f->paths[f->n++];
}

struct sources yaml_files_sources(const struct yaml_files *f)
{
    struct sources s = { .n = f->n };

    for (size_t i = 0; i < f->n; i++)
        s.files[i] = (struct config_source){ .path = f->paths[i], .required = true };
    return s;
}
