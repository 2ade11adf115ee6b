/* SPDX-License-Identifier: Apache-2.0 */
/* The store's rows as plain structs. Texts are borrowed: from an arena when read, from the caller
 * when written. */
#ifndef DOMAIN_MODEL_RECORD_H
#define DOMAIN_MODEL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "lib/json/bind.h"
#include "domain/model/actor.h"
#include "domain/model/approval.h"
#include "domain/model/role.h"
#include "domain/model/state.h"
#include "domain/model/token.h"

enum {
    RECORD_NAME_MAX = 128, /* profile, extension, host */
    RECORD_REASON_MAX = 256,
    RECORD_BOOT_MAX = 40,
    RECORD_CAUSE_MAX = 64, /* of a checkpoint */
    RECORD_TOOL_MAX = 64,
    RECORD_IMAGE_MAX = 768, /* a reference in its one spelling */
    RECORD_DIGEST_MAX = 80, /* "sha256:…" */
};

/* A sandbox. Times are wall clock nanoseconds, 0 for never; `deadline_ns` is on CLOCK_BOOTTIME of
 * the boot with the id `boot`, so that setting the clock does not affect it. */
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
    char reason[RECORD_REASON_MAX]; /* of the last change of state */
    char step[32];                  /* that failed, or "" */
    struct str request;             /* JSON: the create request, resolved against the profile */
    struct str detail;              /* JSON object: notes, actuals, handle */
    struct json_map labels;
    char maker[OWNER_MAX]; /* id of the token that created it; "": made over the unix socket */
    char family[ID_MAX];   /* of that token (struct token_record), or "" */
    char name[64];         /* unique among the owner's live sandboxes, or "" */
};

/* The egress policy of a sandbox. A sandbox without one has no network. */
struct egress_record {
    char sandbox[ID_MAX];
    uint64_t generation; /* from 1 */
    uint32_t endpoints;
    struct str policy;     /* JSON, as egress_policy_to_json() writes it */
    char approved[ID_MAX]; /* the peer or token for which a master approved this policy, or "" */
    int admin;     /* whether an administrator set it; -1: unknown, in rows of older versions */
    uint32_t most; /* ceiling of the token that set it: enum egress_reach + 1; 0: none */
};

/* The last stored line of a sandbox's egress log, and the last line that a rotation of the log
 * removed (engine/egress/chain.h). */
struct egress_head_record {
    char sandbox[ID_MAX];
    uint64_t seq;
    unsigned char digest[32];
    uint64_t cut_seq; /* 0: no rotation yet */
    unsigned char cut_digest[32];
    int64_t time_ns;
    unsigned char mac[32]; /* computed by the store */
    bool genuine;          /* set on reading: the MAC is valid */
};

/* An event. The store assigns `seq`. */
struct event_record {
    int64_t seq, time_ns;
    char type[40];        /* "sandbox.ready" */
    char sandbox[ID_MAX]; /* or "" */
    char owner[OWNER_MAX];
    int from, to; /* enum sandbox_state, or -1 if it is not a change of state */
    struct actor actor;
    char reason[RECORD_REASON_MAX];
    struct str detail; /* JSON object, or empty */
};

/* A background process, which outlives its request. */
struct process_record {
    char sandbox[ID_MAX];
    uint32_t proc;
    struct str spec; /* JSON: the start request */
    int64_t started_ns, exited_ns;
    bool ended;
    int how, status; /* enum control_how, and the exit code or signal */
};

struct token_record {
    char id[ID_MAX];        /* "tok_…" */
    unsigned char hash[32]; /* SHA-256 of the secret */
    char name[64];
    char owner[OWNER_MAX]; /* that it acts for */
    char maker[ID_MAX];    /* the token that made it, and with which it ends; "": a user */
    char family[ID_MAX];   /* the first token in its chain of makers, or itself if a user made it:
                              the tokens of a family share a budget of the owner; not stored */
    enum actor_kind actor;
    uint64_t verbs; /* bits of enum token_verb */
    struct json_map labels;
    bool gateway;    /* may forward X-Trust-Level */
    enum role role;  /* of its holder */
    uint32_t egress; /* ceiling of its policies: enum egress_reach + 1; 0: no ceiling */
    int64_t created_ns, expires_ns, revoked_ns;
    struct token_terms terms;
};

/* A peer: a session of a client that calls tools. */
struct peer_record {
    char id[ID_MAX];        /* "peer_…" */
    unsigned char hash[32]; /* SHA-256 of its session's token */
    char owner[OWNER_MAX];
    struct actor actor;
    int64_t uid; /* of the user that registered it; -1: unknown, it used a token */
    enum role role;
    char client[RECORD_TOOL_MAX]; /* kind of client, as the client names itself */
    int64_t created_ns, seen_ns;
    int64_t ended_ns;       /* its sandboxes are being released; 0: active */
    struct json_map labels; /* of the token that registered it */
};

/* A call that waits, or waited, for a master. */
struct approval_record {
    char id[ID_MAX]; /* "req_…" */
    char peer[ID_MAX];
    char owner[OWNER_MAX];
    int64_t uid; /* of the caller, as in peer_record */
    char tool[RECORD_TOOL_MAX];
    char sandbox[ID_MAX]; /* that the call concerns, or "" */
    char version[24];     /* of the policy that held it */
    char rule[112];       /* … and its rule */
    uint32_t tier;
    enum approval_state state;
    int64_t created_ns, expires_ns, decided_ns, finished_ns;
    char approver[OWNER_MAX]; /* the master who decided, or "" */
    char reason[RECORD_REASON_MAX];
    bool failed;            /* it ran, and the tool returned an error */
    struct str args;        /* JSON, as received */
    struct str result;      /* JSON, or empty */
    struct str request;     /* "PUT /v1/…": an HTTP request, whose rest is in args; or empty */
    struct json_map labels; /* of the caller's token */
};

/* An approval in advance, for calls of one tool on one sandbox. */
struct grant_record {
    char id[ID_MAX]; /* "grant_…" */
    char peer[ID_MAX];
    char tool[RECORD_TOOL_MAX];
    char sandbox[ID_MAX];
    char version[24];
    char approver[OWNER_MAX];
    uint32_t uses; /* left; 0: unlimited */
    int64_t expires_ns;
};

/* A snapshot: the writable layers of a sandbox at one moment, as the base of others. */
struct snapshot_record {
    char id[ID_MAX]; /* "snap_…" */
    char owner[OWNER_MAX];
    char name[64]; /* given by a user, or "" */
    char sandbox[ID_MAX];
    char profile[RECORD_NAME_MAX];
    int64_t profile_version;
    int64_t created_ns;
    int64_t bytes, entries; /* of its uppermost layer */
    int64_t pause_ns;       /* how long the sandbox was paused for it */
    struct str image;       /* below the layers: a reference, or a directory as in the profile;
                               empty: the host's system directories */
    struct str layers;      /* names, uppermost first, separated by blanks */
    struct json_map labels; /* the sandbox's */
    struct str base;        /* the image's layers, as above; empty: not a stored image */
    struct str digest;      /* of the image's manifest */
    struct str config;      /* JSON: the image's configuration of programs */
    char family[ID_MAX];    /* of the token that took or imported it; "": a user */
    int64_t expires_ns;     /* time of its deletion; 0: never */
    struct str settings;    /* JSON: request_settings_write() of the sandbox; or empty */
    /* A checkpoint of its sandbox, which it ends with: its number, the one before it, the number of
     * paths that differ between the two (-1: unknown), and its cause. 0: any other snapshot. */
    int64_t checkpoint, parent, changed;
    char cause[RECORD_CAUSE_MAX];
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

/* An image: its reference, configuration and layers. */
struct image_record {
    char ref[RECORD_IMAGE_MAX];
    char digest[RECORD_DIGEST_MAX]; /* of its manifest */
    char id[RECORD_DIGEST_MAX];     /* of its configuration */
    struct str config;              /* JSON, as received */
    struct str layers;              /* names, lowest first, separated by blanks */
    int64_t created_ns;             /* of this record */
};

/* A read-only layer that is complete on disk. */
struct layer_record {
    char name[RECORD_DIGEST_MAX]; /* as of engine/layers/job.h */
    char digest[RECORD_DIGEST_MAX];
    uint64_t bytes, entries;
    int64_t created_ns;
};

#endif
