/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's file system, step by step; each runs in the child, in its new mount namespace. */
#ifndef ENGINE_RUNTIME_ROOTFS_H
#define ENGINE_RUNTIME_ROOTFS_H

#include "engine/runtime/build.h"

/* The parts of the writable layer and their mount points inside, with PLAN_WRITABLE_SYSTEM or an
 * image: every file that a program wrote is in one of these. Unused parts are missing or empty. */
struct rootfs_part {
    const char *dir; /* in the layer; NULL at the end */
    const char *at;  /* inside, without the leading slash */
    bool has_lower;  /* an overlay's upper directory: other names come from the lower one */
};
extern const struct rootfs_part rootfs_parts[];

int rootfs_private(struct sandbox_build *b, struct err *e); /* keeps our mounts invisible outside */
int rootfs_storage(struct sandbox_build *b, struct err *e); /* the writable layer */
int rootfs_box(struct sandbox_build *b, struct err *e);     /* … on disk */
int rootfs_root(struct sandbox_build *b,
                struct err *e); /* image overlay, or skeleton for the host's system */
int rootfs_system(struct sandbox_build *b, struct err *e); /* the host's system directories */
int rootfs_etc(struct sandbox_build *b, struct err *e);
int rootfs_scratch(struct sandbox_build *b, struct err *e); /* /run */
int rootfs_dev(struct sandbox_build *b, struct err *e);
int rootfs_proc(struct sandbox_build *b, struct err *e);
int rootfs_sys(struct sandbox_build *b, struct err *e);
int rootfs_mounts(struct sandbox_build *b, struct err *e); /* the plan's mounts */
int rootfs_pivot(struct sandbox_build *b, struct err *e);

/* A file of the host, and its mount point in the sandbox. */
struct host_entry {
    const char *path;
    bool is_dir;
    int dir;
    const char *name;
};

/* Attaches it read-only with owners mapped (rootfs_host.c): bind-mounted, or with PLAN_SYSTEM_APART
 * through an overlay. -ERR_UNSUPPORTED: a single file that cannot be in an overlay. */
int rootfs_attach_host(struct sandbox_build *b, const struct host_entry *at, struct err *e);
int rootfs_host_done(struct sandbox_build *b, struct err *e); /* called after the last one */

/* Makes `layer` in the storage with the files that a sandbox on an image has of its own; the
 * image's layers are attached already. */
int rootfs_own_names(const struct sandbox_build *b, const char *layer, struct err *e);

#endif
