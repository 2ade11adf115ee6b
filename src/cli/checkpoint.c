/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint.h"

#include "base/own.h"

void checkpoint_init(struct api_call *c, const struct verb *v, const struct common *common,
                     const char *sandbox, const char *cause)
{
    struct json_writer *w;

    api_call_init(c, v, common, "POST");
    api_call_path(c, "/v1/sandboxes/%s/checkpoints", sandbox);
    w = api_call_json(c);
    json_begin_object(w);
    json_field_cstr(w, "cause", cause);
    json_end_object(w);
    c->doing = "taking a checkpoint";
}

void checkpoint_take_first(const struct verb *v, const struct common *common, const char *sandbox,
                           const char *cause)
{
    AUTO(api_call_done) struct api_call c;
    struct err e;

    checkpoint_init(&c, v, common, sandbox, cause);
    if (!api_call_answers(&c, &e))
        cli_report("no checkpoint of %s was taken, so that undo cannot go back to its first files: "
                   "%s",
                   sandbox, e.msg);
}
