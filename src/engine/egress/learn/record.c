/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/record.h"

#include <string.h>

#include "base/arena.h"
#include "base/own.h"
#include "domain/policy/host_pattern.h"
#include "engine/egress/limits.h"
#include "lib/json/reader.h"

enum {
    RECORD_MEMORY = 256 << 10,
    RECORD_DEPTH = 12,
    CLASS_NETWORK = 4001,
    CLASS_HTTP = 4002,
    CLASS_DNS = 4003,
    ACTIVITY_OPEN = 1,
    ACTIVITY_REFUSE = 5,
    ACTION_DENIED = 2,
    ACTION_ONLY_RECORDED = 3,
    PROGRAM_SHOWN = 255, /* bytes of a path that was not cut */
};

/* The value at "a.b.c"; NULL if it is absent. */
static const struct json *find_decision_member(const struct json *v, const char *path)
{
    struct str rest = str_from(path), key;

    while (v && rest.p) {
        rest = str_cut(rest, '.', &key);
        v = json_get(v, key);
    }
    return v;
}

static struct str decision_text(const struct json *v, const char *path)
{
    const struct json *m = find_decision_member(v, path);

    return m && m->type == JSON_STR ? m->s : (struct str){ 0 };
}

static int64_t decision_number(const struct json *v, const char *path, int64_t otherwise)
{
    const struct json *m = find_decision_member(v, path);

    return m && m->type == JSON_INT ? m->i : otherwise;
}

static enum learn_kind kind_of_event(const struct json *v)
{
    int64_t class = decision_number(v, "class_uid", 0),
            activity = decision_number(v, "activity_id", 0);
    int64_t action = decision_number(v, "action_id", 0);

    if (class == CLASS_DNS)
        return LEARN_ASKED;
    if (class == CLASS_HTTP && action == ACTION_ONLY_RECORDED)
        return LEARN_ONLY_RECORDED;
    if (class == CLASS_HTTP)
        return action == ACTION_DENIED ? LEARN_REFUSED : LEARN_OTHER;
    if (class != CLASS_NETWORK)
        return LEARN_OTHER;
    if (activity == ACTIVITY_REFUSE)
        return LEARN_REFUSED;
    if (activity != ACTIVITY_OPEN)
        return LEARN_OTHER;
    return str_eq(decision_text(v, "unmapped.adapter"), STR("dns")) ? LEARN_ASKED : LEARN_OPENED;
}

/* A policy names programs by globs, and the log escapes what is not printable. */
static bool is_nameable_program(struct str path)
{
    return path.n > 1 && path.n < PROGRAM_SHOWN && path.p[0] == '/' &&
           strcspn(path.p, "*?[]{}\\") == path.n;
}

static void read_decision_program(const struct json *v, struct learn_record *ret)
{
    struct str path = decision_text(v, "actor.process.file.path");

    if (!path.n)
        return;
    ret->odd_program =
        !is_nameable_program(path) || !str_copy(path, ret->program, sizeof ret->program);
}

static bool is_policy_name(struct str name)
{
    struct host_pattern p;

    return !host_pattern_parse(name, &p) && !p.wild;
}

static bool has_destination(const struct json *v)
{
    return find_decision_member(v, "dst_endpoint") || find_decision_member(v, "query");
}

/* The name that was asked for; without one, the address. */
static bool read_destination(const struct json *v, struct learn_record *ret)
{
    struct str name = decision_text(v, "dst_endpoint.hostname"),
               ip = decision_text(v, "dst_endpoint.ip");
    int64_t port = decision_number(v, "dst_endpoint.port", 0);
    bool has_ip = address_parse(ip, &ret->at);

    if (!name.n)
        name = decision_text(v, "query.hostname");
    if (port < 0 || port > UINT16_MAX)
        return false;
    ret->port = (uint16_t)port;
    ret->has_at = has_ip && name.n;
    if (name.n)
        return is_policy_name(name) && host_parse(name, false, &ret->host, NULL) >= 0;
    return has_ip && host_parse(ip, ret->at.v6, &ret->host, NULL) >= 0;
}

static bool read_decision(const struct json *v, struct learn_record *ret)
{
    int64_t count = decision_number(v, "count", 1);

    *ret =
        (struct learn_record){ .kind = kind_of_event(v), .count = count > 0 ? (uint64_t)count : 1 };
    if (ret->kind == LEARN_OTHER)
        return true;
    (void)str_copy(decision_text(v, "status_code"), ret->code, sizeof ret->code);
    (void)str_copy(decision_text(v, "connection_info.protocol_name"), ret->protocol,
                   sizeof ret->protocol);
    read_decision_program(v, ret);
    if (ret->kind == LEARN_REFUSED && !has_destination(v)) {
        ret->kind = LEARN_UNKNOWN;
        return true;
    }
    return read_destination(v, ret) && (ret->kind != LEARN_OPENED || ret->port);
}

bool learn_record_read(struct str line, struct learn_record *ret)
{
    static const struct json_limits limits = { .bytes = EGRESS_AUDIT_LINE_MAX,
                                               .depth = RECORD_DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT(RECORD_MEMORY);
    const struct json *v;

    return json_read(line, limits, &a, &v, NULL) >= 0 && v->type == JSON_OBJECT &&
           read_decision(v, ret);
}
