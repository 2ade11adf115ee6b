/* Asking a registry of images (HTTP API v2): one GET after the other, with what it takes to be let
 * in, through redirects, again after what passes.
 *
 * Every URL that is asked, also where a registry sends us and where its tokens come from, is https
 * unless the configuration says http for just that host, and leads to public addresses or to those
 * that the configuration names for that host. Names and passwords go to the registry and to whom it
 * names for tokens, tokens to the registry; nothing of it follows a redirect to another host. */
#ifndef CONTROL_REGISTRY_H
#define CONTROL_REGISTRY_H

#include "config/config.h"
#include "fetcher/fetcher.h"
#include "loop/timer.h"
#include "oci/challenge.h"
#include "oci/reference.h"

/* One repository of one registry, and what we are let in with. */
struct registry {
    struct loop *loop;
    struct fetcher_share *requests;
    const struct config *config;
    char host[OCI_HOST_MAX];
    char repository[OCI_PATH_MAX];
    struct buf basic;  /* "Basic …", or empty */
    struct buf bearer; /* "Bearer …", or empty */
};

/* `credentials` is USER:PASSWORD, or empty: then what the configuration's file for the host says.
 */
int registry_init(struct registry *r, struct loop *loop, struct fetcher_share *requests,
                  const struct config *config, const struct oci_reference *of,
                  struct str credentials, struct err *e);
void registry_done(struct registry *r);

struct registry_get;
/* A piece of the body. `restart`: it is the first byte of all, whatever came before. */
typedef int registry_piece_fn(struct registry_get *g, bool restart, struct str piece,
                              struct err *e);
/* a is NULL if r < 0; else an answer with status 200 or 206. */
typedef void registry_done_fn(struct registry_get *g, int r, const struct err *e,
                              const struct fetch_answer *a);

enum { REGISTRY_TARGET_MAX = OCI_PATH_MAX + 256 };

/* A member of its owner, who fills in the first part. */
struct registry_get {
    struct registry *registry;
    char what[OCI_TAG_MAX + 16]; /* below the repository: "manifests/latest" */
    const char *accept;          /* NULL: anything */
    uint64_t from;               /* byte to begin at; the owner counts on as pieces come */
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
    bool fresh_;  /* nothing of this answer has come */
    bool let_in_; /* a token was asked for, or the password given */
    bool tried_;  /* … since it was last begun or gone on with: once more would not help */
    struct loop_timer rest_;
    struct err err_;
};

void registry_start(struct registry_get *g);
void registry_cancel(struct registry_get *g); /* done is not called; harmless on a zeroed one */

#endif
