/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/table.h"

#include <math.h>

#include "base/str.h"

static bool is_metric_name(const char *s)
{
    if (!s || s[0] < 'a' || s[0] > 'z')
        return false;
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* Texts that need no escaping when they are written. */
static bool is_unescaped_text(const char *s)
{
    return s && *s && !strpbrk(s, "\"\\\n") && str_is_utf8(str_from(s));
}

static bool has_duplicate(const struct metric_label *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(l->values[i], l->values[j]) == 0)
                return true;
    return false;
}

static int check_metric_label(const struct metric *m, const struct metric_label *l, struct err *e)
{
    if (!is_metric_name(l->name) || strcmp(l->name, "le") == 0 || l->count == 0)
        return err_set(e, ERR_BUG, "metric %s: a label needs a name and values", m->name);
    for (size_t i = 0; i < l->count; i++)
        if (!is_unescaped_text(l->values[i]))
            return err_set(e, ERR_BUG,
                           "metric %s: value %zu of label %s is empty or needs escaping", m->name,
                           i, l->name);
    if (has_duplicate(l))
        return err_set(e, ERR_BUG, "metric %s: label %s has a value twice", m->name, l->name);
    return 0;
}

static int check_metric_labels(const struct metric *m, struct err *e)
{
    size_t series = 1;

    for (size_t i = 0; i < METRIC_LABELS_MAX && m->labels[i]; i++) {
        int r = check_metric_label(m, m->labels[i], e);

        if (r < 0)
            return r;
        if (i > 0 && strcmp(m->labels[i]->name, m->labels[0]->name) == 0)
            return err_set(e, ERR_BUG, "metric %s: label %s twice", m->name, m->labels[i]->name);
        if (m->labels[i]->count > METRIC_SERIES_MAX / series)
            return err_set(e, ERR_BUG, "metric %s: more than %d series", m->name,
                           METRIC_SERIES_MAX);
        series *= m->labels[i]->count;
    }
    return 0;
}

static int check_metric_bounds(const struct metric *m, struct err *e)
{
    bool wanted = m->kind == METRIC_HISTOGRAM;

    if (wanted != (m->bound_count > 0) || m->bound_count > METRIC_BUCKETS_MAX)
        return err_set(e, ERR_BUG, "metric %s: a histogram, and nothing else, has 1 to %d buckets",
                       m->name, METRIC_BUCKETS_MAX);
    for (size_t i = 0; i < m->bound_count; i++)
        if (!isfinite(m->bounds[i]) || (i > 0 && m->bounds[i] <= m->bounds[i - 1]))
            return err_set(e, ERR_BUG, "metric %s: bucket bounds do not rise", m->name);
    return 0;
}

/* Endings that Prometheus gives a meaning. process_ names are known to every dashboard. */
static int check_metric_name(const struct metric *m, struct err *e)
{
    struct str name = str_from(m->name);

    if (!is_metric_name(m->name) ||
        (!str_starts(name, STR("sandboxer_")) && !str_starts(name, STR("process_"))))
        return err_set(e, ERR_BUG, "'%s' is no name for a metric: sandboxer_…",
                       m->name ? m->name : "");
    if (str_ends(name, STR("_total")) != (m->kind == METRIC_COUNTER))
        return err_set(e, ERR_BUG, "metric %s: counters, and nothing else, end in _total", m->name);
    if (str_ends(name, STR("_bucket")) || str_ends(name, STR("_sum")) ||
        str_ends(name, STR("_count")))
        return err_set(e, ERR_BUG, "metric %s: the ending belongs to histograms", m->name);
    return 0;
}

int metric_check(const struct metric *m, struct err *e)
{
    int r = check_metric_name(m, e);

    if (r < 0)
        return r;
    if (!is_unescaped_text(m->help))
        return err_set(e, ERR_BUG, "metric %s: the help is empty or needs escaping", m->name);
    r = check_metric_labels(m, e);
    if (r < 0)
        return r;
    return check_metric_bounds(m, e);
}

size_t metric_series(const struct metric *m)
{
    size_t n = 1;

    for (size_t i = 0; i < METRIC_LABELS_MAX && m->labels[i]; i++)
        n *= m->labels[i]->count;
    return n;
}

/* A histogram has a cell a bucket, +Inf, and the sum. */
size_t metric_width(const struct metric *m)
{
    return m->kind == METRIC_HISTOGRAM ? m->bound_count + 2 : 1;
}
