/* SPDX-License-Identifier: Apache-2.0 */
/* A client for image registries (HTTP API v2): one GET at a time, with authentication, redirects
 * and retries of transient errors.
 *
 * Every URL, also of redirects and token servers, is https unless the configuration says http for
 * that host, and resolves to public addresses or to those that the configuration names for that
 * host. Credentials are sent to the registry and its token server, tokens to the registry; neither
 * follows a redirect to another host. */
#ifndef CONTROL_IMAGE_IMAGE_REGISTRY_H
#define CONTROL_IMAGE_IMAGE_REGISTRY_H

#include "domain/config/config.h"
#include "engine/fetcher/fetcher.h"
#include "lib/loop/timer.h"
#include "domain/oci/challenge.h"
#include "domain/oci/reference.h"

/* One repository of a registry, with credentials. */
struct registry {
    struct loop *loop;
    struct fetcher_share *requests;
    const struct config *config;
    char host[OCI_HOST_MAX];
    char repository[OCI_PATH_MAX];
    struct buf basic;  /* "Basic …", or empty */
    struct buf bearer; /* "Bearer …", or empty */
};

/* `credentials` is USER:PASSWORD, or empty: then those of the configuration's file for the host. */
int registry_init(struct registry *r, struct loop *loop, struct fetcher_share *requests,
                  const struct config *config, const struct oci_reference *of,
                  struct str credentials, struct err *e);
void registry_done(struct registry *r);

struct registry_get;
/* A piece of the body. `restart`: it begins at the first byte again. */
typedef int registry_piece_fn(struct registry_get *g, bool restart, struct str piece,
                              struct err *e);
/* a is NULL if r < 0; else an answer with status 200 or 206. */
typedef void registry_done_fn(struct registry_get *g, int r, const struct err *e,
                              const struct fetch_answer *a);

enum { REGISTRY_TARGET_MAX = OCI_PATH_MAX + 256 };

/* Embedded in its owner, which fills in the first part. */
struct registry_get {
    struct registry *registry;
    char what[OCI_TAG_MAX + 16]; /* below the repository: "manifests/latest" */
    const char *accept;          /* NULL: anything */
    uint64_t from;               /* byte to begin at; the owner advances it with each piece */
    size_t max_body;
    registry_piece_fn *piece; /* NULL: the body is in the answer */
    registry_done_fn *done;   /* once, from the loop */

    struct fetch_request request_;
    struct fetch_header headers_[3];
    struct address addresses_[FETCH_ADDRESSES_MAX];
    char url_[FETCH_URL_MAX + 1];
    char range_[48];
    uint64_t from_before_;
    struct oci_challenge challenge_;
    unsigned tries_, hops_;
    bool fresh_;  /* nothing of this answer was received yet */
    bool let_in_; /* authentication was used: a token or the password */
    bool tried_;  /* … since the last start or retry: another attempt would not help */
    struct loop_timer retry_;
    struct err err_;
};

void registry_start(struct registry_get *g);
void registry_cancel(struct registry_get *g); /* done is not called; harmless on a zeroed one */

#endif
