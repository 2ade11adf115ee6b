/* SPDX-License-Identifier: Apache-2.0 */
/* An egress log that anybody may have written: however it is cut into pieces, the reader finds the
 * same; a line that has a place is taken apart as it was put together; what is found can be
 * told. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/chain.h"
#include "engine/egress/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_line(struct str line)
{
    struct chain_line l;

    if (!chain_parse(line, &l))
        return;
    HOLDS(l.place.seq > 0 && l.body.n < line.n && l.body.p == line.p);
}

static void read_in_pieces(struct str text, size_t size, bool open_begin, struct chain_reader *r)
{
    static const unsigned char key[CHAIN_SIZE] = "fuzz";
    static const struct chain_place anchor = { .seq = 3 };

    *r = (struct chain_reader){ .key = open_begin ? NULL : key,
                                .open_begin = open_begin,
                                .cut = { .seq = 2 },
                                .anchors = &anchor,
                                .n_anchors = 1 };
    while (text.n) {
        size_t part = text.n < size ? text.n : size;

        chain_read_text(r, (struct str){ text.p, part });
        text = (struct str){ text.p + part, text.n - part };
    }
    chain_end_file(r);
    chain_end(r);
    chain_reader_done(r);
}

static void check_ends(struct str text)
{
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
    struct chain_place at;
    int64_t end;

    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        abort();
    chain_head(fd, &at);
    HOLDS(chain_tail(fd, &at, &end));
    HOLDS(end >= 0 && end <= (int64_t)text.n);
    HOLDS(end == 0 || text.n > 2 * EGRESS_AUDIT_LINE_MAX || text.p[end - 1] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str text = { (const char *)data, n }, line;
    struct chain_reader one, other;
    char said[192];

    for (struct str rest = text; rest.n;) {
        rest = str_cut(rest, '\n', &line);
        check_line(line);
    }
    for (int open_begin = 0; open_begin < 2; open_begin++) {
        read_in_pieces(text, n ? n : 1, open_begin, &one);
        read_in_pieces(text, 13, open_begin, &other);
        HOLDS(one.lines == other.lines && one.n_findings == other.n_findings &&
              one.unchained == other.unchained && chain_same(&one.last, &other.last));
        for (size_t i = 0; i < one.n_findings && i < CHAIN_FINDINGS_MAX; i++)
            chain_explain(&one.findings[i], said, sizeof said);
    }
    check_ends(text);
    return 0;
}
