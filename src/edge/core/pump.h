/* Copies between a client whose request was upgraded and a socket, as fast as the slower of them
 * takes it. It is the first member of its call's state. */
#ifndef API_PUMP_H
#define API_PUMP_H

#include "api/call.h"
#include "loop/fd.h"

enum { PUMP_CHUNK = 64 << 10, PUMP_PENDING_MAX = 1 << 20 };

struct pump {
    struct call *call;
    struct loop_fd inner; /* .fd is -1: none */
    bool client_full;     /* takes no more until it has drained */
    struct buf pending;   /* for the inner end, which is full */
};

void pump_init(struct pump *p, struct call *c);
/* Upgrades with these fields and begins; the socket is the pump's, also on failure. */
int pump_start(struct pump *p, int fd, const struct h1_field *fields, size_t n, struct err *e);
/* The same where something was read already: `first` goes to the client. */
int pump_go_on(struct pump *p, const struct h1_field *fields, size_t n, struct str first,
               struct err *e);
void pump_stop(struct pump *p); /* the client is gone */
void pump_done(struct pump *p);

#endif
