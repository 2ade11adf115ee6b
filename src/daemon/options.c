/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "domain/config/config.h"

static const char help[] =
    "usage: sandboxerd [--foreground] [--listen[=ADDRESS:PORT]] [--config FILE]\n"
    "\n"
    "The control plane of sandboxer: keeps sandboxes, serves the REST interface on a unix\n"
    "socket and, with --listen, on TCP (tokens needed: sandboxer token create).\n"
    "\n"
    "  --foreground          stay in the foreground; otherwise go to the background when ready\n"
    "  --listen[=ADDR:PORT]  serve TCP too (default " CONFIG_LISTEN_DEFAULT ")\n"
    "  --listen-unencrypted  let --listen name an address that other machines reach\n"
    "  --config FILE         this configuration instead of the usual files\n"
    "  --check-config        check configuration, state directory and socket as a start does,\n"
    "                        print the configuration in force, and exit\n"
    "  --show-config         print the configuration in force, with the source of each value\n"
    "  --default-config      print all fields with their defaults, as comments\n"
    "  --agents              print the recipes of agents as JSON\n"
    "  --ready-fd N          write one byte to descriptor N when serving\n"
    "  --on-demand           end when it is not used (idle_exit), as the sandboxer command starts "
    "it\n"
    "  --version, --help\n"
    "\n"
    "Environment: SANDBOXER_SOCKET, SANDBOXER_STATE, SANDBOXER_HUB_URL, SANDBOXER_HOST,\n"
    "SANDBOXER_PROFILES, SANDBOXER_AGENTS; sockets of systemd (LISTEN_FDS) are taken over.\n"
    "Exit status: 0, 1 for a failure, 2 for a wrong command line, 75 if one is running already.\n";

enum {
    OPT_FOREGROUND = 1,
    OPT_LISTEN,
    OPT_UNENCRYPTED,
    OPT_CONFIG,
    OPT_CHECK,
    OPT_SHOW,
    OPT_DEFAULT,
    OPT_AGENTS,
    OPT_READY,
    OPT_ON_DEMAND,
    OPT_VERSION,
    OPT_HELP
};

static const struct option table[] = {
    { "foreground", no_argument, NULL, OPT_FOREGROUND },
    { "listen", optional_argument, NULL, OPT_LISTEN },
    { "listen-unencrypted", no_argument, NULL, OPT_UNENCRYPTED },
    { "config", required_argument, NULL, OPT_CONFIG },
    { "check-config", no_argument, NULL, OPT_CHECK },
    { "show-config", no_argument, NULL, OPT_SHOW },
    { "default-config", no_argument, NULL, OPT_DEFAULT },
    { "agents", no_argument, NULL, OPT_AGENTS },
    { "ready-fd", required_argument, NULL, OPT_READY },
    { "on-demand", no_argument, NULL, OPT_ON_DEMAND },
    { "version", no_argument, NULL, OPT_VERSION },
    { "help", no_argument, NULL, OPT_HELP },
    { 0 },
};

/* `--listen ADDR` as well as `--listen=ADDR`, as people write it. */
static const char *listen_value(int argc, char **argv)
{
    if (optarg)
        return optarg;
    if (optind < argc && argv[optind][0] != '-')
        return argv[optind++];
    return CONFIG_LISTEN_DEFAULT;
}

bool daemon_options_read(int argc, char **argv, struct daemon_options *ret, int *ret_status)
{
    struct err e;
    uint64_t fd;
    int c;

    *ret = (struct daemon_options){ .ready_fd = -1 };
    *ret_status = 2;
    while ((c = getopt_long(argc, argv, "", table, NULL)) >= 0) {
        switch (c) {
        case OPT_FOREGROUND:
            ret->foreground = true;
            break;
        case OPT_LISTEN:
            ret->listen = listen_value(argc, argv);
            break;
        case OPT_UNENCRYPTED:
            ret->listen_unencrypted = true;
            break;
        case OPT_CONFIG:
            ret->config = optarg;
            break;
        case OPT_CHECK:
            ret->check_config = true;
            break;
        case OPT_ON_DEMAND:
            ret->on_demand = true;
            break;
        case OPT_SHOW:
            ret->show_config = true;
            break;
        case OPT_DEFAULT:
            ret->default_config = true;
            break;
        case OPT_AGENTS:
            ret->agents = true;
            break;
        case OPT_READY:
            if (units_count(str_from(optarg), "--ready-fd", 3, 1023, &fd, &e) < 0) {
                fprintf(stderr, "sandboxerd: %s\n", e.msg);
                return false;
            }
            ret->ready_fd = (int)fd;
            break;
        case OPT_VERSION:
        case OPT_HELP:
            fputs(c == OPT_HELP ? help : "sandboxerd " SANDBOXER_VERSION "\n", stdout);
            *ret_status = 0;
            return false;
        default:
            fputs("sandboxerd: --help says what can be written\n", stderr);
            return false;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "sandboxerd: '%s' is not an option; --help says what is\n", argv[optind]);
        return false;
    }
    return true;
}
