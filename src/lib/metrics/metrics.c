/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/str.h"

static bool has_metric(const struct metric_set *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->table[i].name, name) == 0)
            return true;
    return false;
}

static int check_table(struct metrics *m, const struct metric *table, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        struct metric_set before = { .table = table, .count = i };
        bool twice = has_metric(&before, table[i].name);
        int r = metric_check(&table[i], e);

        if (r < 0)
            return r;
        LIST_EACH (struct metric_set, s, &m->sets_, link_)
            twice |= has_metric(s, table[i].name);
        if (twice)
            return err_set(e, ERR_CONFLICT, "metric %s is registered already", table[i].name);
    }
    return 0;
}

int metrics_register(struct metrics *m, struct metric_set *s, const struct metric *table,
                     size_t count, struct err *e)
{
    int r;

    if (s->cells_)
        return err_set(e, ERR_CONFLICT, "these metrics are registered already");
    r = check_table(m, table, count, e);
    if (r < 0)
        return r;
    s->metrics = m;
    s->table = table;
    s->count = count;
    s->cells_ = new0_array(count + 1, sizeof *s->cells_);
    for (size_t i = 0; i < count; i++)
        s->cells_[i] =
            new0_array(metric_series(&table[i]) * metric_width(&table[i]), sizeof(double));
    list_append(&m->sets_, &s->link_);
    return 0;
}

void metrics_unregister(struct metric_set *s)
{
    for (size_t i = 0; s->cells_ && i < s->count; i++)
        free(s->cells_[i]);
    free(s->cells_);
    s->cells_ = NULL;
    link_leave(&s->link_);
}

/* The series' first cell; NULL if the table has none such. */
static double *find_series(const struct metric_set *s, size_t metric, struct metric_at at)
{
    const struct metric *m;
    size_t series = 0;

    if (metric >= s->count)
        return NULL;
    m = &s->table[metric];
    for (size_t i = 0; i < METRIC_LABELS_MAX; i++) {
        size_t values = m->labels[i] ? m->labels[i]->count : 1;

        if (at.value[i] >= values)
            return NULL;
        series = series * values + at.value[i];
    }
    return &s->cells_[metric][series * metric_width(m)];
}

/* The same for an update, which must be of a kind (a bit each) and with a number. */
static double *find_for_update(struct metric_set *s, unsigned kinds, size_t metric,
                               struct metric_at at, double value)
{
    double *cell;

    if (!s->cells_)
        return NULL;
    cell = find_series(s, metric, at);
    if (cell && (kinds & 1u << s->table[metric].kind) && isfinite(value))
        return cell;
    s->metrics->bad_updates_++;
    return NULL;
}

#define COUNTER   (1u << METRIC_COUNTER)
#define GAUGE     (1u << METRIC_GAUGE)
#define HISTOGRAM (1u << METRIC_HISTOGRAM)

void metric_add(struct metric_set *s, size_t metric, struct metric_at at, double n)
{
    double *cell = find_for_update(s, n < 0 ? GAUGE : GAUGE | COUNTER, metric, at, n);

    if (cell)
        *cell += n;
}

void metric_set_to(struct metric_set *s, size_t metric, struct metric_at at, double value)
{
    double *cell = find_for_update(s, GAUGE, metric, at, value);

    if (cell)
        *cell = value;
}

void metric_raise_to(struct metric_set *s, size_t metric, struct metric_at at, double value)
{
    double *cell = find_for_update(s, COUNTER, metric, at, value);

    if (cell && value >= *cell)
        *cell = value;
    else if (cell)
        s->metrics->bad_updates_++;
}

void metric_observe(struct metric_set *s, size_t metric, struct metric_at at, double value)
{
    double *cells = find_for_update(s, HISTOGRAM, metric, at, value);
    size_t bucket = 0;

    if (!cells)
        return;
    while (bucket < s->table[metric].bound_count && value > s->table[metric].bounds[bucket])
        bucket++;
    cells[bucket]++;
    cells[s->table[metric].bound_count + 1] += value;
}

double metric_get(const struct metric_set *s, size_t metric, struct metric_at at)
{
    const double *cell = s->cells_ ? find_series(s, metric, at) : NULL;

    return cell ? *cell : 0;
}

static int write_metric_line(struct buf *out, const struct metric *m, const char *ending,
                             size_t series, const char *le, double value)
{
    size_t second = m->labels[0] && m->labels[1] ? m->labels[1]->count : 1;
    size_t at[METRIC_LABELS_MAX] = { series / second, series % second };
    const char *before = "{";

    if (buf_addf(out, "%s%s", m->name, ending) < 0)
        return -ERR_TOO_BIG;
    for (size_t i = 0; i < METRIC_LABELS_MAX && m->labels[i]; i++, before = ",")
        if (buf_addf(out, "%s%s=\"%s\"", before, m->labels[i]->name, m->labels[i]->values[at[i]]) <
            0)
            return -ERR_TOO_BIG;
    if (le && buf_addf(out, "%sle=\"%s\"", before, le) < 0)
        return -ERR_TOO_BIG;
    if (buf_add(out, le || *before == ',' ? STR("} ") : STR(" ")) < 0 ||
        /* Doubles hold whole numbers exactly up to 2^53, and 17 digits hold any double. */
        buf_addf(out, fabs(value) < 0x1p53 && value == trunc(value) ? "%.0f\n" : "%.17g\n", value) <
            0)
        return -ERR_TOO_BIG;
    return 0;
}

/* Buckets are counted separately and exported cumulatively, as Prometheus requires. */
static int write_histogram(struct buf *out, const struct metric *m, size_t series,
                           const double *cells)
{
    double total = 0;
    char le[32];

    for (size_t i = 0; i <= m->bound_count; i++) {
        total += cells[i];
        if (i < m->bound_count)
            snprintf(le, sizeof le, "%.15g", m->bounds[i]);
        if (write_metric_line(out, m, "_bucket", series, i < m->bound_count ? le : "+Inf", total) <
            0)
            return -ERR_TOO_BIG;
    }
    if (write_metric_line(out, m, "_sum", series, NULL, cells[m->bound_count + 1]) < 0)
        return -ERR_TOO_BIG;
    return write_metric_line(out, m, "_count", series, NULL, total);
}

static int write_metric(struct buf *out, const struct metric *m, const double *cells)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };
    size_t n = metric_series(m), width = metric_width(m);
    int r =
        buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, kinds[m->kind]);

    for (size_t i = 0; i < n && r >= 0; i++)
        r = m->kind == METRIC_HISTOGRAM ? write_histogram(out, m, i, cells + i * width)
                                        : write_metric_line(out, m, "", i, NULL, cells[i]);
    return r;
}

int metrics_write(struct metrics *m, struct buf *out)
{
    static const struct metric bad = {
        .kind = METRIC_COUNTER,
        .name = "sandboxer_metrics_bad_updates_total",
        .help = "Updates that no table has a metric for: each is a bug.",
    };
    size_t before = out->n;
    int r = 0;

    LIST_EACH (struct metric_set, s, &m->sets_, link_) {
        if (r >= 0 && s->refresh)
            s->refresh(s);
        for (size_t i = 0; i < s->count && r >= 0; i++)
            r = write_metric(out, &s->table[i], s->cells_[i]);
    }
    if (r >= 0)
        r = write_metric(out, &bad, &m->bad_updates_);
    if (r < 0) {
        out->n = before;
        buf_grew(out, 0);
    }
    return r;
}

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

static int check_metric_label(const struct metric *m, const struct metric_label *l, struct err *e)
{
    if (!is_metric_name(l->name) || strcmp(l->name, "le") == 0 || l->count == 0)
        return err_set(e, ERR_BUG, "metric %s: a label needs a name and values", m->name);
    for (size_t i = 0; i < l->count; i++)
        if (!is_unescaped_text(l->values[i]))
            return err_set(e, ERR_BUG,
                           "metric %s: value %zu of label %s is empty or needs escaping", m->name,
                           i, l->name);
    for (size_t i = 0; i < l->count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(l->values[i], l->values[j]) == 0)
                return err_set(e, ERR_BUG, "metric %s: label %s has a value twice", m->name,
                               l->name);
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
