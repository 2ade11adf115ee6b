#include "mcp/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"

static void drop_oldest(struct replay *p)
{
    struct replay_entry *v = container_of(list_take(&p->entries), struct replay_entry, link);

    p->n--;
    p->bytes -= v->text.n;
    free(v);
}

void replay_done(struct replay *p)
{
    while (p->n)
        drop_oldest(p);
}

void replay_add(struct replay *p, uint64_t stream, uint64_t seq, struct str text)
{
    struct replay_entry *v;
    char *copy;

    if (text.n > REPLAY_BYTES_MAX)
        return;
    while (p->n && (p->n >= REPLAY_ENTRIES_MAX || p->bytes + text.n > REPLAY_BYTES_MAX))
        drop_oldest(p);
    v = malloc(sizeof *v + text.n);
    if (!v)
        abort();
    copy = (char *)(v + 1);
    memcpy(copy, text.p, text.n);
    *v = (struct replay_entry){ .stream = stream, .seq = seq, .text = { copy, text.n } };
    list_append(&p->entries, &v->link);
    p->n++;
    p->bytes += text.n;
}

const struct replay_entry *replay_after(struct replay *p, uint64_t stream, uint64_t seq)
{
    for (struct link *l = list_first(&p->entries); l; l = list_after(&p->entries, l)) {
        const struct replay_entry *v = container_of(l, struct replay_entry, link);

        if (v->stream == stream && v->seq > seq)
            return v;
    }
    return NULL;
}

void replay_id(char out[static REPLAY_ID_MAX], uint64_t stream, uint64_t seq)
{
    snprintf(out, REPLAY_ID_MAX, "%llu-%llu", (unsigned long long)stream, (unsigned long long)seq);
}

bool replay_id_read(struct str id, uint64_t *ret_stream, uint64_t *ret_seq)
{
    struct str stream, seq = str_cut(id, '-', &stream);

    return seq.p && str_to_u64(stream, ret_stream) && str_to_u64(seq, ret_seq);
}
