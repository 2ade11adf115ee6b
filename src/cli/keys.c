/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys.h"

static int take_byte(struct str *bytes)
{
    int c = (unsigned char)bytes->p[0];

    *bytes = (struct str){ bytes->p + 1, bytes->n - 1 };
    return c;
}

/* Behind "ESC [" or "ESC O": parameters, and a last byte that names the key. */
static int take_sequence(struct str *bytes)
{
    int c = 0;

    while (bytes->n && (c < '@' || c > '~'))
        c = take_byte(bytes);
    return c == 'A' ? KEY_UP : c == 'B' ? KEY_DOWN : KEY_NONE;
}

int keys_next(struct str *bytes)
{
    int c = take_byte(bytes);

    if (c == '\n')
        return KEY_ENTER;
    if (c != KEY_ESCAPE || !bytes->n || (bytes->p[0] != '[' && bytes->p[0] != 'O'))
        return c;
    take_byte(bytes);
    return take_sequence(bytes);
}
