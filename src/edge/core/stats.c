/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/stats.h"

#include "base/clock.h"
#include "control/control.h"
#include "edge/core/answers.h"

#define LIMIT(member) JSON_AT(struct limits_answer, member), .optional = true
#define USE(member)   JSON_AT(struct usage_answer, member)

const struct json_field limits_fields[LIMITS_FIELDS] = {
    { "cpu", JSON_KIND_DOUBLE, LIMIT(cpu) },
    { "memory_bytes", JSON_KIND_UINT, LIMIT(of.memory) },
    { "disk_bytes", JSON_KIND_UINT, LIMIT(of.disk) },
    { "pids", JSON_KIND_UINT, LIMIT(of.pids) },
};
static const struct json_shape limits_shape = { "Limits", JSON_FIELDS(limits_fields) };

const struct json_field usage_fields[USAGE_FIELDS] = {
    { "measured_at", JSON_KIND_TIME, USE(of.time_ns), .required = true },
    { "cpu", JSON_KIND_DOUBLE, USE(cpu), .required = true },
    { "cpu_seconds", JSON_KIND_DOUBLE, USE(cpu_s), .required = true },
    { "memory_bytes", JSON_KIND_UINT, USE(of.memory), .required = true },
    { "mapped_bytes", JSON_KIND_UINT, USE(of.mapped), .required = true },
    { "disk_bytes", JSON_KIND_UINT, USE(of.disk), .required = true },
    { "processes", JSON_KIND_UINT, USE(of.processes), .required = true },
};
static const struct json_shape usage_shape = { "Usage", JSON_FIELDS(usage_fields) };

const struct json_shape *const answers_stats[] = { &limits_shape, &usage_shape, NULL };

/* Three decimals. */
static double round_to_milli(double v)
{
    return (double)(int64_t)(v * 1000 + 0.5) / 1000;
}

bool limits_answer_fill(struct limits_answer *a, const struct sandbox *s)
{
    if (!sandbox_limits(s, &a->of))
        return false;
    a->cpu = a->of.cpu_milli / 1000.0;
    return true;
}

bool usage_answer_fill(struct usage_answer *a, const struct sandbox *s)
{
    const struct usage_sample *all;
    size_t n = sandbox_samples(s, &all);

    if (!n || !sandbox_state_usable(sandbox_state(s)))
        return false;
    a->of = all[n - 1];
    a->cpu = round_to_milli(a->of.processors);
    a->cpu_s = round_to_milli((double)a->of.cpu_ns / (double)NS_PER_S);
    return true;
}
