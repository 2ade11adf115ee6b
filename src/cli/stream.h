/* SPDX-License-Identifier: Apache-2.0 */
/* Copies one direction between a descriptor of this process and one of the sandbox, without
 * blocking and with one buffer: back-pressure comes from the descriptors. */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_BUFFER = 64 << 10 };

struct stream {
    int from, to;   /* -1: this direction has ended */
    bool owns_from; /* closes `from` at the end; else `to` */
    bool no_splice; /* the descriptors cannot move pages between them */
    bool wait_out;  /* `to` was full */
    uint64_t moved;
    bool cut;     /* the reader of `to` closed it before `from` ended */
    int error;    /* errno, if bytes were lost because writing to `to` failed */
    char *data;   /* STREAM_BUFFER bytes, for when splice does not work */
    size_t at, n; /* unwritten bytes of it */
};

/* From an output of the sandbox to a descriptor of this process, or the other way round. */
void stream_init(struct stream *s, int from, int to, bool owns_from, char *data);
bool stream_open(const struct stream *s);
void stream_close(struct stream *s);

/* Those of a program: */
enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };
/* Connects our stdin, stdout and stderr with the descriptors of a program, which are taken: its
 * terminal alone, or [stdin] stdout stderr. False: their number is another one. */
bool streams_connect(struct stream s[static STREAMS], int *fds, size_t n, bool tty, bool stdin_);
/* Prints which outputs were lost, behind the name of a verb (NULL: none), and returns whether some
 * were. */
bool streams_lost(const struct stream s[static STREAMS], const char *verb);

/* The events to poll for. */
void stream_poll(const struct stream *s, struct pollfd *ret);
/* Moves available bytes; ends the direction at end of file, or when the reader has closed. */
void stream_move(struct stream *s);

#endif
