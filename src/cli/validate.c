/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validate.h"

#include "base/own.h"
#include "cli/show.h"
#include "cli/text_file.h"

int validate_file(const struct verb *v, int argc, char **argv, const struct file_validation *x)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    const struct json *valid;
    struct err e;
    int status;

    api_call_init(&c, v, &common, "POST");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    if (text_file_read(argv[0], &c.body, &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/%s/validate", x->what);
    api_call_field(&c, "Content-Type", "application/yaml");
    status = api_call_run(&c);
    if (status)
        return status;
    valid = show_at(c.answer, "valid");
    if (valid && valid->type == JSON_BOOL && valid->b)
        return answer_done(&c, c.answer, "%s is valid", argv[0]);
    status = (x->many ? answer_list : answer_record)(&c, c.answer, x->problem);
    return status ? status : EXIT_REPORTED;
}
