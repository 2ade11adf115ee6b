/* The sandbox's file system, step by step; each runs in the child, in its new mount namespace. */
#ifndef RUNTIME_ROOTFS_H
#define RUNTIME_ROOTFS_H

#include "runtime/build.h"

/* What of the writable layer is seen where inside, with PLAN_WRITABLE_SYSTEM or an image: all that
 * a program can have written is in one of these. Those that a sandbox has not are not there, or
 * empty. */
struct rootfs_part {
    const char *dir; /* in the layer; NULL at the end */
    const char *at;  /* inside, without the leading slash */
    bool has_lower;  /* an overlay's upper directory: what it does not have is the lower one's */
};
extern const struct rootfs_part rootfs_parts[];

int rootfs_private(struct build *b, struct err *e); /* nothing we mount is seen outside */
int rootfs_storage(struct build *b, struct err *e); /* the writable layer */
int rootfs_box(struct build *b, struct err *e);     /* … on disk */
int rootfs_root(struct build *b,
                struct err *e); /* image overlay, or skeleton for the host's system */
int rootfs_system(struct build *b, struct err *e); /* the host's system directories */
int rootfs_etc(struct build *b, struct err *e);
int rootfs_scratch(struct build *b, struct err *e); /* /run */
int rootfs_dev(struct build *b, struct err *e);
int rootfs_proc(struct build *b, struct err *e);
int rootfs_sys(struct build *b, struct err *e);
int rootfs_mounts(struct build *b, struct err *e); /* what the plan grants */
int rootfs_pivot(struct build *b, struct err *e);

/* The host's system directories, without a slash; some hosts lack some, or have links instead. */
extern const char *const rootfs_system_names[];
extern const size_t rootfs_system_count;

/* An entry of the host, and the place where the sandbox has it. */
struct host_entry {
    const char *path;
    bool is_dir;
    int dir;
    const char *name;
};

/* Attaches it read-only with owners mapped (rootfs_host.c): bound, or with PLAN_SYSTEM_APART
 * through an overlay. -ERR_UNSUPPORTED: a single file that no overlay can have. */
int rootfs_attach_host(struct build *b, const struct host_entry *at, struct err *e);
int rootfs_host_done(struct build *b, struct err *e); /* after the last one */

/* Makes `layer` in the storage, of what a sandbox on an image has of its own; the image's layers
 * are attached. */
int rootfs_names(const struct build *b, const char *layer, struct err *e);

#endif
