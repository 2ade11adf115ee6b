/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "edge/api.h"
#include "daemon/certificate.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "daemon/idle_exit.h"
#include "daemon/plane_fence.h"
#include "daemon/requests.h"
#include "daemon/monitor.h"
#include "lib/loop/signal.h"

enum { THREADS = 4, WORK_MAX = 4096, STOP_S = 10, LISTENER_TEXT = 160 };

struct serve {
    const struct serve_setup *setup;
    struct loop loop;
    struct thread_pool work;
    struct control *control;
    struct api *api;
    struct loop_signal term, intr, hup;
    struct requests requests;
    struct control_request certificate, headers;
    int headers_fd; /* content of hub.headers_file, until the control plane reads it; -1: none … */
    struct err headers_err;    /* … and why */
    struct loop_timer renewal; /* of the domain's certificate */
    struct daemon_facts facts;
    const char *listening[LISTEN_MAX + 1]; /* of the facts */
    char listening_text[LISTEN_MAX + 1][LISTENER_TEXT];
    int unix_sockets[LISTEN_MAX]; /* the server's; for idle_exit.c */
    size_t n_unix_sockets;
    struct idle_exit idle;
    bool stopping;
    int status;
};

void serve_report(int ready_fd, const char *message)
{
    ssize_t n = 0;

    if (ready_fd >= 0)
        n = message ? write(ready_fd, message, strlen(message)) : write(ready_fd, "\n", 1);
    if (n < 0 || !message)
        return;
}

/* sd_notify(3), without the library. */
static void notify_systemd(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    AUTO_CLOSE int fd = -1;
    socklen_t n;

    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof a.sun_path)
        return;
    memcpy(a.sun_path, path, strlen(path));
    n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        a.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, n) < 0)
        LOG(WARN, "daemon.notify_failed", LOG_S("socket", path));
}

static void stop_daemon(struct serve *s);

static void control_closed(void *user)
{
    struct serve *s = user;

    s->control = NULL;
    loop_stop(&s->loop);
}

static void api_closed(void *user)
{
    struct serve *s = user;

    s->api = NULL;
    control_close(s->control, control_closed);
}

static void on_signal(struct loop_signal *sig, const struct signalfd_siginfo *info)
{
    struct serve *s = sig->signo == SIGTERM ? container_of(sig, struct serve, term)
                                            : container_of(sig, struct serve, intr);

    LOG(INFO, "daemon.stopping", LOG_I("signal", (int64_t)info->ssi_signo));
    stop_daemon(s);
}

/* --- the domain's certificate --- */

static void on_renewal(struct loop_timer *t);

static void renew_later(struct serve *s)
{
    const struct config *c = s->setup->config;

    if (c->domain.listen)
        loop_timer_start(&s->loop, &s->renewal, clock_mono() + c->domain.renew, on_renewal, NULL);
}

static void on_certificate(struct control_request *q, int r, const struct err *e, int *fd)
{
    AUTO(certificate_done) struct certificate new = { 0 };
    struct serve *s = container_of(q, struct serve, certificate);
    struct err why = { 0 };

    if (!s->api || s->stopping)
        return;
    if (r < 0)
        why = *e;
    else
        r = certificate_receive(*fd, &new, &why);
    if (r >= 0)
        r = api_renew_tls(s->api, buf_str(&new.chain), buf_str(&new.key), &why);
    if (r < 0)
        LOG(ERROR, "tls.renewal_failed", LOG_S("error", why.msg));
    renew_later(s);
}

/* The current certificate stays until there is another valid one. */
static void renew_now(struct serve *s)
{
    struct monitor_request message = { .kind = MONITOR_CERTIFICATE };
    struct err e;

    if (!s->api || s->stopping || !s->setup->config->domain.listen ||
        link_joined(&s->certificate.link_))
        return;
    s->certificate.done = on_certificate;
    if (requests_send(&s->requests, &message, NULL, 0, &s->certificate, &e) < 0) {
        LOG(ERROR, "tls.renewal_failed", LOG_S("error", e.msg));
        renew_later(s);
    }
}

static void on_renewal(struct loop_timer *t)
{
    renew_now(container_of(t, struct serve, renewal));
}

static void reload_hub(struct serve *s)
{
    if (!s->stopping)
        control_reload_hub(s->control);
    drop_fd(&s->headers_fd);
}

/* The control plane reads the file, if there is one, in the course of its reload. */
static void on_headers(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct serve *s = container_of(q, struct serve, headers);

    if (r < 0)
        s->headers_err = *e;
    else
        s->headers_fd = take_fd(fd);
    reload_hub(s);
}

static void request_headers(struct serve *s)
{
    struct monitor_request message = { .kind = MONITOR_HEADERS };

    if (link_joined(&s->headers.link_))
        return; /* a reload is under way */
    s->headers.done = on_headers;
    if (!s->setup->config->hub.headers_file ||
        requests_send(&s->requests, &message, NULL, 0, &s->headers, &s->headers_err) < 0)
        reload_hub(s);
}

/* Must not reload profiles: the API holds the catalog while it writes its answer. */
static void reload_for_client(void *user)
{
    struct serve *s = user;

    request_headers(s);
    renew_now(s);
}

static void on_daemon_hup(struct loop_signal *sig, const struct signalfd_siginfo *info)
{
    struct serve *s = container_of(sig, struct serve, hup);
    struct err e;

    reload_for_client(s);
    if (!s->stopping)
        (void)control_reload_profiles(s->control, &e); /* logs the failure */
    if (s->api)
        api_reload(s->api);
}

static void on_monitor_gone(struct requests *q)
{
    struct serve *s = container_of(q, struct serve, requests);

    LOG(ERROR, "daemon.warden_gone", LOG_S("action", "stopping"));
    s->status = 1;
    stop_daemon(s);
}

static void stop_daemon(struct serve *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    loop_timer_stop(&s->renewal);
    idle_exit_stop(&s->idle);
    notify_systemd("STOPPING=1");
    if (s->api)
        api_close(s->api, clock_mono() + STOP_S * NS_PER_S, api_closed, s);
    else
        control_close(s->control, control_closed);
}

/* --- the facts that GET /v1/daemon shows --- */

static void add_listener_text(struct serve *s, const char *scheme, const char *address)
{
    size_t i = s->facts.listen.n;

    if (i == COUNT_OF(s->listening))
        return;
    snprintf(s->listening_text[i], LISTENER_TEXT, "%s%s", scheme, address);
    s->listening[i] = s->listening_text[i];
    s->facts.listen = (struct json_strs){ s->listening, i + 1 };
}

/* An abstract name begins with a zero byte. */
static void note_listener(struct serve *s, int fd, bool tls)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_un local;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a;
    char ip[INET6_ADDRSTRLEN] = "", text[INET6_ADDRSTRLEN + 16];
    socklen_t n = sizeof a;
    const char *path = a.local.sun_path;

    memset(&a, 0, sizeof a);
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return;
    if (a.any.ss_family == AF_UNIX) {
        s->unix_sockets[s->n_unix_sockets++] = fd;
        add_listener_text(s, path[0] ? "unix:" : "unix:@", path[0] ? path : path + 1);
        return;
    }
    if (a.any.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &a.six.sin6_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "[%s]:%u", ip, (unsigned)ntohs(a.six.sin6_port));
    } else {
        inet_ntop(AF_INET, &a.four.sin_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "%s:%u", ip, (unsigned)ntohs(a.four.sin_port));
    }
    add_listener_text(s, tls ? "https://" : "http://", text);
}

static void fill_facts(struct serve *s)
{
    const struct serve_setup *u = s->setup;

    s->facts = (struct daemon_facts){ .starter = u->starter,
                                      .started_ns = clock_wall(),
                                      .supervisor = getppid(),
                                      .state = u->config->state,
                                      .socket = u->doors->path[0] ? u->doors->path : NULL,
                                      .log = u->log,
                                      .listen_option = u->listen_option,
                                      .driver = u->storage.driver,
                                      .why = u->storage.why,
                                      .reload = reload_for_client,
                                      .user = s };
}

static int listen_all(struct serve *s, struct err *e)
{
    struct doors *d = s->setup->doors;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < d->n; i++) {
        note_listener(s, d->fd[i], false);
        r = api_listen(s->api, take_fd(&d->fd[i]), e);
    }
    if (r >= 0 && d->tls >= 0) {
        note_listener(s, d->tls, true);
        r = api_listen_tls(s->api, take_fd(&d->tls), s->setup->chain, s->setup->key, e);
    }
    return r;
}

/* --- the end of a daemon that is not used --- */

/* Connections to a unix socket that was shut down are refused, as if no process listened; those
 * that came before are still accepted. */
static void on_idle_refuse(struct idle_exit *i)
{
    struct serve *s = container_of(i, struct serve, idle);

    for (size_t k = 0; k < s->n_unix_sockets; k++)
        shutdown(s->unix_sockets[k], SHUT_RD);
}

static void on_idle_end(struct idle_exit *i)
{
    stop_daemon(container_of(i, struct serve, idle));
}

/* Only a daemon that the next command can start again. */
static void watch_use(struct serve *s)
{
    const struct config *c = s->setup->config;
    bool local = s->n_unix_sockets == s->facts.listen.n && !c->hub.url;

    if (s->setup->starter != STARTED_ON_DEMAND)
        return;
    s->idle = (struct idle_exit){ .loop = &s->loop,
                                  .control = s->control,
                                  .api = s->api,
                                  .state = s->setup->state,
                                  .after_ns = local ? c->idle_exit : 0,
                                  .on_refuse = on_idle_refuse,
                                  .on_end = on_idle_end };
    s->facts.idle_exit_ns = s->idle.after_ns;
    idle_exit_watch(&s->idle);
}

/* All sandboxes of earlier daemon runs have been recovered: the API opens. */
static void on_control_open(void *user)
{
    struct serve *s = user;
    const struct api_setup setup = { .loop = &s->loop,
                                     .control = s->control,
                                     .config = s->setup->config,
                                     .owner = s->setup->owner,
                                     .daemon = &s->facts };
    struct err e;
    int r = s->stopping ? 0 : api_open(&setup, &s->api, &e);

    if (s->stopping)
        return;
    if (r >= 0)
        r = listen_all(s, &e);
    if (r < 0) {
        LOG(ERROR, "daemon.failed", LOG_S("error", e.msg));
        serve_report(s->setup->ready_fd, e.msg);
        s->status = 1;
        stop_daemon(s);
        return;
    }
    renew_later(s);
    watch_use(s);
    LOG(INFO, "daemon.ready", LOG_S("version", SANDBOXER_VERSION),
        LOG_S("socket", s->setup->doors->path));
    notify_systemd("READY=1");
    serve_report(s->setup->ready_fd, NULL);
}

/* Requests to the monitor: `user` is the struct requests. */
static int new_launcher(void *user, int *ret, struct err *e)
{
    return requests_program(user, MONITOR_LAUNCHER, ret, NULL, e);
}

static int new_grant(void *user, const struct control_grant *g, struct control_request *q,
                     struct err *e)
{
    const struct serve *s = container_of(user, struct serve, requests);

    return monitor_grant(user, &s->setup->launcher, g, q, e);
}

/* At the start it is waited for; at a reload it was fetched before. */
static int read_headers(void *user, int *ret, struct err *e)
{
    struct serve *s = container_of(user, struct serve, requests);

    if (!s->control)
        return requests_await(user, MONITOR_HEADERS, ret, e);
    if (s->headers_fd < 0) {
        *e = s->headers_err;
        return -(int)s->headers_err.code;
    }
    *ret = take_fd(&s->headers_fd);
    return 0;
}

static int new_worker(void *user, int *ret, uint64_t *ret_id, struct err *e)
{
    return requests_program(user, MONITOR_EGRESS, ret, ret_id, e);
}

static int new_layer_worker(void *user, int *ret, struct err *e)
{
    return requests_program(user, MONITOR_LAYER_WORKER, ret, NULL, e);
}

static int new_fetch_process(void *user, int *ret, uint64_t *ret_id, struct err *e)
{
    return requests_program(user, MONITOR_FETCH, ret, ret_id, e);
}

static void end_program(struct requests *q, enum monitor_kind kind, uint64_t id)
{
    struct monitor_request message = { .kind = kind, .worker = id };
    struct err e;

    if (requests_notify(q, &message, NULL, 0, &e) < 0)
        LOG(ERROR, "warden.failed", LOG_S("error", e.msg));
}

static void end_worker(void *user, uint64_t id)
{
    end_program(user, MONITOR_END_EGRESS, id);
}

static void end_fetch_process(void *user, uint64_t id)
{
    end_program(user, MONITOR_END_FETCH, id);
}

static int open_control(struct serve *s, struct err *e)
{
    const struct serve_setup *u = s->setup;
    const struct control_setup setup = {
        .loop = &s->loop,
        .work = &s->work,
        .config = u->config,
        .owner = u->owner,
        .state = u->state,
        .profiles = u->profiles,
        .storage = u->storage,
        .keys = u->keys,
        .backends = { .roots = u->launcher.roots,
                      .roots_only = u->launcher.untrusted,
                      .tenants = config_serves_tenants(u->config),
                      .launcher = new_launcher,
                      .user = &s->requests },
        .supervisor = { .mirror = monitor_sync,
                        .grant = new_grant,
                        .cancel = requests_cancel,
                        .forget_grant = monitor_forget,
                        .headers = read_headers,
                        .egress_worker = new_worker,
                        .end_egress_worker = end_worker,
                        .egress_places = monitor_places,
                        .fetch_process = new_fetch_process,
                        .end_fetch_process = end_fetch_process,
                        .layer_worker = new_layer_worker,
                        .user = &s->requests },
        .on_open = on_control_open,
        .user = s,
    };

    return control_open(&setup, &s->control, e);
}

static int open_plane(struct serve *s, struct err *e)
{
    int r = plane_fence_enter(s->setup, e);

    signal(SIGPIPE, SIG_IGN);
    if (r >= 0)
        r = loop_init(&s->loop, e);
    if (r >= 0)
        r = loop_signal_start(&s->loop, &s->term, SIGTERM, on_signal, e);
    if (r >= 0)
        r = loop_signal_start(&s->loop, &s->intr, SIGINT, on_signal, e);
    if (r >= 0)
        r = loop_signal_start(&s->loop, &s->hup, SIGHUP, on_daemon_hup, e);
    if (r >= 0)
        r = thread_pool_init(&s->work, &s->loop, THREADS, WORK_MAX, e);
    if (r >= 0)
        r = requests_open(&s->requests, &s->loop, s->setup->monitor, on_monitor_gone, e);
    if (r >= 0)
        r = open_control(s, e);
    return r;
}

int serve_run(const struct serve_setup *setup)
{
    static struct serve s;
    struct err e;
    int r;

    s.setup = setup;
    s.headers_fd = -1;
    fill_facts(&s);
    r = open_plane(&s, &e);
    if (r < 0) {
        fprintf(stderr, "sandboxerd: %s\n", e.msg);
        serve_report(setup->ready_fd, e.msg);
        return r == -(int)ERR_BUSY ? 75 : 1;
    }
    r = loop_run(&s.loop, &e);
    if (r < 0)
        LOG(ERROR, "daemon.failed", LOG_S("error", e.msg));
    thread_pool_done(&s.work);
    doors_remove(setup->doors);
    LOG(INFO, "daemon.stopped", LOG_I("status", s.status));
    return r < 0 ? 1 : s.status;
}
