/* What the store keeps: the rows, as plain structs. Texts are borrowed: from an arena when they
 * were read, from whoever fills them in when they are written. */
#ifndef MODEL_RECORD_H
#define MODEL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "json/bind.h"
#include "model/actor.h"
#include "model/approval.h"
#include "model/role.h"
#include "model/state.h"
#include "model/token.h"

enum {
    RECORD_NAME_MAX = 128, /* profile, extension, host */
    RECORD_REASON_MAX = 256,
    RECORD_BOOT_MAX = 40,
    RECORD_TOOL_MAX = 64,
    RECORD_IMAGE_MAX = 768, /* a reference in its one spelling */
    RECORD_DIGEST_MAX = 80, /* "sha256:…" */
};

/* A sandbox. Times are wall clock nanoseconds, 0 for never; `deadline_ns` is on CLOCK_BOOTTIME of
 * the boot that `boot` names, so that setting the clock neither kills a sandbox nor keeps it. */
struct sandbox_record {
    char id[ID_MAX];
    char owner[OWNER_MAX];
    enum sandbox_state state;
    char profile[RECORD_NAME_MAX];
    int64_t profile_version;
    char extension[RECORD_NAME_MAX];
    char host[RECORD_NAME_MAX];
    int64_t created_ns, updated_ns, ready_ns, finished_ns;
    int64_t ttl_ns, ttl_max_ns, idle_ns; /* idle_ns 0: not reaped when idle */
    int64_t deadline_ns;
    char boot[RECORD_BOOT_MAX];
    char reason[RECORD_REASON_MAX]; /* of the last move */
    char step[32];                  /* that failed, or "" */
    struct str request;             /* JSON: the create request, resolved against the profile */
    struct str detail;              /* JSON object: notes, telemetry, actuals, handle */
    struct json_map labels;
    char maker[OWNER_MAX]; /* id of the token that created it; "": a user of the unix socket did */
    char family[ID_MAX];   /* of that token (struct token_record); "": none */
};

/* The egress policy that holds for a sandbox; without one it has no network. */
struct egress_record {
    char sandbox[ID_MAX];
    uint64_t generation; /* from 1 */
    uint32_t endpoints;
    struct str policy;     /* JSON, as egress_policy_to_json() writes it */
    char approved[ID_MAX]; /* the peer or token that a master approved this very policy for; "":
                              none did */
    int admin;     /* whether an administrator set it; -1: of a row from before that was kept */
    uint32_t most; /* ceiling of the token that did: enum egress_reach + 1; 0: none */
};

/* The last line of a sandbox's egress log that is on record, and the last one that a rotation of
 * the log removed (egress/chain.h). */
struct egress_head_record {
    char sandbox[ID_MAX];
    uint64_t seq;
    unsigned char digest[32];
    uint64_t cut_seq; /* 0: nothing was removed */
    unsigned char cut_digest[32];
    int64_t time_ns;
    unsigned char mac[32]; /* the store's */
    bool genuine;          /* the answer's: the mac is good */
};

/* One thing that happened. `seq` is given by the store. */
struct event_record {
    int64_t seq, time_ns;
    char type[40];        /* "sandbox.ready" */
    char sandbox[ID_MAX]; /* "" if it concerns none */
    char owner[OWNER_MAX];
    int from, to; /* enum sandbox_state, or -1 where it is no move */
    struct actor actor;
    char reason[RECORD_REASON_MAX];
    struct str detail; /* JSON object, or empty */
};

/* A process that outlives its request: started in the background. */
struct process_record {
    char sandbox[ID_MAX];
    uint32_t proc;
    struct str spec; /* JSON: the start request */
    int64_t started_ns, exited_ns;
    bool ended;
    int how, status; /* enum control_how and what goes with it */
};

struct token_record {
    char id[ID_MAX];        /* "tok_…" */
    unsigned char hash[32]; /* SHA-256 of the secret */
    char name[64];
    char owner[OWNER_MAX]; /* for whom it acts */
    char maker[ID_MAX];    /* the token that made it, and that it ends with; "": a user did */
    char family[ID_MAX];   /* the first token among its makers, itself where a user made it: budgets
                              of the owner count all of a family together; not stored */
    enum actor_kind actor;
    uint64_t verbs; /* bits of enum token_verb */
    struct json_map labels;
    bool gateway;    /* may pass X-Trust-Level on */
    enum role role;  /* of whoever holds it */
    uint32_t egress; /* ceiling of its policies: enum egress_reach + 1; 0: it sets none */
    int64_t created_ns, expires_ns, revoked_ns;
    struct token_terms terms;
};

/* Somebody who calls tools: a session of a client. */
struct peer_record {
    char id[ID_MAX];        /* "peer_…" */
    unsigned char hash[32]; /* SHA-256 of its session's token */
    char owner[OWNER_MAX];
    struct actor actor;
    int64_t uid; /* of who registered it; -1: not known, it came with a token */
    enum role role;
    char client[RECORD_TOOL_MAX]; /* kind of client: what it calls itself */
    int64_t created_ns, seen_ns;
    int64_t ended_ns;       /* its sandboxes are being released; 0: it lives */
    struct json_map labels; /* of the token that registered it */
};

/* A call that waits, or waited, for a master. */
struct approval_record {
    char id[ID_MAX]; /* "req_…" */
    char peer[ID_MAX];
    char owner[OWNER_MAX];
    int64_t uid; /* of who asks, as in peer_record */
    char tool[RECORD_TOOL_MAX];
    char sandbox[ID_MAX]; /* that it is about, or "" */
    char version[24];     /* of the policy that held it */
    char rule[112];       /* … and its rule */
    uint32_t tier;
    enum approval_state state;
    int64_t created_ns, expires_ns, decided_ns, finished_ns;
    char approver[OWNER_MAX]; /* who decided, or "" */
    char reason[RECORD_REASON_MAX];
    bool failed;       /* it ran, and the tool's answer is an error */
    struct str args;   /* JSON, as they came */
    struct str result; /* JSON, or empty */
    struct str request; /* "PUT /v1/…": a request of HTTP, of which the rest is in args; or empty */
    struct json_map labels; /* of the token that asked */
};

/* A yes in advance, to calls of one tool on one sandbox. */
struct grant_record {
    char id[ID_MAX]; /* "grant_…" */
    char peer[ID_MAX];
    char tool[RECORD_TOOL_MAX];
    char sandbox[ID_MAX];
    char version[24];
    char approver[OWNER_MAX];
    uint32_t uses; /* that are left; 0: as many as it likes */
    int64_t expires_ns;
};

/* What a sandbox had written at a moment, to be built on. */
struct snapshot_record {
    char id[ID_MAX]; /* "snap_…" */
    char owner[OWNER_MAX];
    char name[64]; /* a person's, or "" */
    char sandbox[ID_MAX];
    char profile[RECORD_NAME_MAX];
    int64_t profile_version;
    int64_t created_ns;
    int64_t bytes, entries; /* of its uppermost layer */
    int64_t pause_ns;       /* that taking it has cost the sandbox */
    struct str image;       /* what the layers were written on: a reference, or a directory as the
                               profile names it; empty: the host's system directories */
    struct str layers;      /* names, uppermost first, separated by blanks */
    struct json_map labels; /* the sandbox's */
    struct str base;        /* the image's layers, as above; empty: it is no stored one */
    struct str digest;      /* of the image's manifest */
    struct str config;      /* JSON: how the image's programs are run */
    char family[ID_MAX];    /* of the token that took or imported it; "": a user did */
    int64_t expires_ns;     /* when it is deleted; 0: never */
};

struct host_record {
    char name[64];
    char address[RECORD_NAME_MAX]; /* "local", "ssh://user@host" */
    int64_t added_ns;
    struct json_map labels;
};

struct idempotency_record {
    char owner[OWNER_MAX];
    char key[128];
    unsigned char body[32]; /* SHA-256 of the request */
    char sandbox[ID_MAX];
    int64_t created_ns;
};

/* An image: what it is called, and what it is made of. */
struct image_record {
    char ref[RECORD_IMAGE_MAX];
    char digest[RECORD_DIGEST_MAX]; /* of its manifest */
    char id[RECORD_DIGEST_MAX];     /* of its configuration */
    struct str config;              /* JSON, as it came */
    struct str layers;              /* names of layers, the lowest first, a blank between them */
    int64_t created_ns;             /* here */
};

/* A read-only layer that is whole on disk. */
struct layer_record {
    char name[RECORD_DIGEST_MAX]; /* as of layers/job.h */
    char measure[RECORD_DIGEST_MAX];
    uint64_t bytes, entries;
    int64_t created_ns;
};

#endif
