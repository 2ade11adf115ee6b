/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/daytona.h"
#include "edge/e2b/e2b.h"
#include "edge/rest/routes.h"

const struct dialect *const dialects[] = {
    /* Requests for a sandbox come first: their path may have any form. */
    &envd_files_dialect,
    &envd_rpc_dialect,
    &envd_dialect,
    &e2b_code_dialect,
    &e2b_service_dialect,
    &e2b_port_dialect,
    &daytona_preview_dialect,
    /* APIs with paths of their own */
    &toolbox_files_dialect,
    &toolbox_dialect,
    &daytona_dialect,
    &e2b_files_dialect,
    &e2b_upload_dialect,
    &e2b_dialect,
    &rest_dialect,
    NULL,
};
