/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/own.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("sandboxer", "client"),
    COLUMN("sandboxerd", "daemon.version"),
};
static const struct answer_kind kind = KIND("", "client", columns);

static int run_version(struct api_call *c, void *options, int argc, char **argv)
{
    struct json members[2] = {
        { .type = JSON_STR, .key = STR("client"), .s = STR(SANDBOXER_VERSION) },
        { .key = STR("daemon") },
    };
    const struct json answer = { .type = JSON_OBJECT, .list = { members, COUNT_OF(members) } };

    api_call_path(c, "/version");
    c->start = CONTACT_ONLY;
    c->patience = 5 * NS_PER_S;
    if (api_call_answers(c, NULL)) {
        members[1] = *c->answer;
        members[1].key = STR("daemon");
    }
    return answer_record(c, &answer, &kind);
}

const struct verb verb_version = {
    .name = "version",
    .summary = "show the version of this program and of the daemon",
    .text = "A daemon that does not run is not started for this. 'daemon status' shows more of\n"
            "one that runs: its process, socket, state directory and addresses.\n"
            "\n"
            "  sandboxer version -o json\n",
    .run = run_version,
    .flags = VERB_ASKS,
};
