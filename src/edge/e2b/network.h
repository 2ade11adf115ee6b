/* What E2B's clients say of a sandbox's network, and what that is in our policies.
 *
 * Nothing, or allow_internet_access true, is what the profile lets out. What allowOut names may be
 * reached whatever else is said; with denyOut, so may what it does not name. */
#ifndef API_E2B_NETWORK_H
#define API_E2B_NETWORK_H

#include "model/record.h"
#include "model/request.h"
#include "profile/catalog.h"

struct policy_bounds;
struct policy_text;
struct sandbox;
struct json_writer;

struct e2b_network {
    bool internet, internet_given;
    struct json_strs allow, deny;
    const struct json *rules, *proxy, *mask, *https_ports;
    bool public_traffic;
};

enum { E2B_NETWORK_FIELD_COUNT = 8 };
extern const struct json_field e2b_network_fields[E2B_NETWORK_FIELD_COUNT];

/* Refuses what we could not keep. */
int e2b_network_check(const struct e2b_network *n, struct err *e);
/* Into a request for a new sandbox, which has its profile. */
int e2b_network_fill(const struct e2b_network *n, const struct catalog *all,
                     struct create_request *q, struct err *e);
/* In place of what holds for a sandbox that has a network. */
int e2b_network_text(const struct e2b_network *n, const struct catalog *all,
                     const struct sandbox_record *r, const struct policy_bounds *b,
                     struct policy_text **ret, struct err *e);

/* By the policy that it has: whether anything is let out; and what its clients are told of that,
 * members of an object. */
bool e2b_network_open(const struct sandbox *s);
void e2b_network_write(struct json_writer *w, const struct sandbox *s);

#endif
