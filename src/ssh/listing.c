#include "ssh/listing.h"

/* "NAME => PATH (ADDRESS)", "NAME => not found", or "PATH (ADDRESS)": the loader's own. */
static bool read_line(struct str line, struct ssh_needed *ret)
{
    struct str name, arrow, path, rest = str_cut(str_trim(line), ' ', &name);

    *ret = (struct ssh_needed){ .path = name, .loader = true };
    if (str_starts(name, STR("/")))
        return true;
    rest = str_cut(rest, ' ', &arrow);
    str_cut(rest, ' ', &path);
    if (!str_eq(arrow, STR("=>")))
        return false;
    if (str_starts(path, STR("/")))
        *ret = (struct ssh_needed){ .path = path };
    else
        *ret = (struct ssh_needed){ .missing = name };
    return true;
}

bool ssh_listing_next(struct str *rest, struct ssh_needed *ret)
{
    struct str line;

    while (rest->n) {
        *rest = str_cut(*rest, '\n', &line);
        if (read_line(line, ret))
            return true;
    }
    return false;
}
