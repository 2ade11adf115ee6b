/* One direction of bytes between a descriptor of ours and one of the sandbox's, without ever
 * blocking and without holding more than one buffer: back-pressure is the descriptors' own. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_BUFFER = 64 << 10 };

struct stream {
    int from, to;   /* -1: this direction is over */
    bool owns_from; /* closes `from` at the end; else `to` */
    bool no_splice; /* the descriptors cannot move pages between them */
    bool wait_out;  /* `to` was full */
    uint64_t moved;
    bool cut;     /* whoever reads `to` went away before `from` was at its end */
    int error;    /* errno, if bytes were lost because `to` took no more */
    char *data;   /* STREAM_BUFFER bytes, for when splice does not work */
    size_t at, n; /* what of it is not written yet */
};

/* An output of the sandbox to a descriptor of ours, or the other way round. */
void stream_init(struct stream *s, int from, int to, bool owns_from, char *data);
bool stream_open(const struct stream *s);
void stream_close(struct stream *s);

/* What to wait for now. */
void stream_poll(const struct stream *s, struct pollfd *ret);
/* Moves what can be moved; at end of file, or when nobody reads, the direction is over. */
void stream_move(struct stream *s);

#endif
