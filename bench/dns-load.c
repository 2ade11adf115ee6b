/* SPDX-License-Identifier: Apache-2.0 */
/* dns-load: asks a resolver for the address of one name, again and again, some questions at a time.
 *
 *   dns-load NAME MOST MOST-MS        of the first nameserver in /etc/resolv.conf
 *
 * Says that it is ready, waits for a byte of stdin, prints answers, failures (another code than
 * NOERROR, or no address) and nanoseconds as JSON, and ends with stdin. A question whose answer
 * does not come within a second is lost, and counts as failed. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "die.h"

enum { AT_ONCE = 16, QUESTION_MAX = 300, ANSWER_MAX = 1500, PORT = 53 };

static struct {
    struct mmsghdr out[AT_ONCE], in[AT_ONCE];
    struct iovec out_bytes[AT_ONCE], in_bytes[AT_ONCE];
    unsigned char questions[AT_ONCE][QUESTION_MAX], answers[AT_ONCE][ANSWER_MAX];
} batch;

/* A question of type A; 0 if the name is none. */
static size_t write_question(const char *name, unsigned id, unsigned char *to)
{
    const unsigned char head[12] = { (unsigned char)(id >> 8), (unsigned char)id, 1, 0, 0, 1 };
    size_t n = sizeof head;

    memcpy(to, head, sizeof head);
    while (*name) {
        size_t label = strcspn(name, ".");

        if (label == 0 || label > 63 || n + label + 6 > QUESTION_MAX)
            return 0;
        to[n++] = (unsigned char)label;
        memcpy(to + n, name, label);
        n += label;
        name += label + (name[label] == '.');
    }
    memcpy(to + n, "\0\0\1\0\1", 5); /* the root, A, IN */
    return n + 5;
}

static int reach_resolver(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    struct timeval second = { .tv_sec = 1 };
    char line[256], address[64];
    FILE *f = fopen("/etc/resolv.conf", "re");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), found = 0;

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "nameserver %63s", address) == 1 &&
                inet_pton(AF_INET, address, &at.sin_addr) == 1;
    if (f)
        fclose(f);
    if (!found || fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) < 0)
        die("reaching the resolver");
    return fd;
}

static void prepare(const char *name)
{
    for (unsigned i = 0; i < AT_ONCE; i++) {
        size_t n = write_question(name, i, batch.questions[i]);

        if (n == 0) {
            fprintf(stderr, "dns-load: %s is no name\n", name);
            exit(2);
        }
        batch.out_bytes[i] = (struct iovec){ batch.questions[i], n };
        batch.in_bytes[i] = (struct iovec){ batch.answers[i], ANSWER_MAX };
        batch.out[i].msg_hdr = (struct msghdr){ .msg_iov = &batch.out_bytes[i], .msg_iovlen = 1 };
        batch.in[i].msg_hdr = (struct msghdr){ .msg_iov = &batch.in_bytes[i], .msg_iovlen = 1 };
    }
}

static int is_good(const unsigned char *answer, size_t n)
{
    return n > 12 && (answer[3] & 15) == 0 && (answer[6] || answer[7]);
}

/* How many of a batch were answered well. */
static int ask(int fd)
{
    int heard = 0, good = 0;

    if (sendmmsg(fd, batch.out, AT_ONCE, 0) != AT_ONCE)
        die("asking");
    while (heard < AT_ONCE) {
        int n = recvmmsg(fd, batch.in, (unsigned)(AT_ONCE - heard), MSG_WAITFORONE, NULL);

        if (n < 0 && errno != EINTR)
            return good;
        for (int i = 0; i < n; i++)
            good += is_good(batch.answers[i], batch.in[i].msg_len);
        heard += n > 0 ? n : 0;
    }
    return good;
}

int main(int argc, char **argv)
{
    long long most = argc == 4 ? strtoll(argv[2], NULL, 10) : 0, asked = 0, good = 0;
    int64_t begin, until;
    int fd;

    if (most < 1) {
        fprintf(stderr, "usage: dns-load NAME MOST MOST-MS\n");
        return 2;
    }
    prepare(argv[1]);
    fd = reach_resolver();
    ask(fd); /* so that it is cached */
    printf("ready\n");
    fflush(stdout);
    getchar();
    begin = clock_mono();
    until = begin + strtoll(argv[3], NULL, 10) * 1000000;
    for (; asked < most && clock_mono() < until; asked += AT_ONCE)
        good += ask(fd);
    printf("{\"done\":%lld,\"failed\":%lld,\"ns\":%lld}\n", good, asked - good,
           (long long)(clock_mono() - begin));
    fflush(stdout);
    while (getchar() != EOF) /* the measuring program may still be looking */
        ;
    return 0;
}
