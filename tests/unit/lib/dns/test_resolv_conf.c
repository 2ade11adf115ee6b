/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/dns/resolver.h"

#include "harness/tap.h"

static struct dns_server servers[DNS_SERVERS_MAX];
static char text[ADDRESS_TEXT_MAX];

TEST(name_servers)
{
    CHECK_INT(resolv_conf_parse(STR("# made by hand\nsearch example.com\nnameserver 192.0.2.1\n"
                                    "options edns0\n\tnameserver\t2001:db8::1 # second\r\n"),
                                servers),
              2);
    CHECK_STR(address_text(&servers[0].address, text), "192.0.2.1");
    CHECK_INT(servers[0].port, 53);
    CHECK_STR(address_text(&servers[1].address, text), "2001:db8::1");
}

TEST(the_first_three)
{
    CHECK_INT(resolv_conf_parse(STR("nameserver 192.0.2.1\nnameserver 192.0.2.2\n"
                                    "nameserver 192.0.2.3\nnameserver 192.0.2.4"),
                                servers),
              3);
    CHECK_STR(address_text(&servers[2].address, text), "192.0.2.3");
}

TEST(what_is_passed_over)
{
    CHECK_INT(resolv_conf_parse((struct str){ NULL, 0 }, servers), 0);
    CHECK_INT(resolv_conf_parse(STR(""), servers), 0);
    CHECK_INT(resolv_conf_parse(STR("nameserver"), servers), 0);
    CHECK_INT(resolv_conf_parse(STR("nameserver fe80::1%eth0\nnameserver x\nnameserver 127.1\n"
                                    "#nameserver 1.1.1.1\n;nameserver 1.1.1.1\n"
                                    "nameservers 1.1.1.1\nNAMESERVER 1.1.1.1\n"),
                                servers),
              0);
}
