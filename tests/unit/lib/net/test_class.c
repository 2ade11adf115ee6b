/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "harness/tap.h"
#include "lib/net/address.h"

static const struct {
    const char *text;
    enum address_class class;
} classes[] = {
    { "1.1.1.1", ADDRESS_PUBLIC },
    { "8.8.8.8", ADDRESS_PUBLIC },
    { "9.255.255.255", ADDRESS_PUBLIC },
    { "11.0.0.0", ADDRESS_PUBLIC },
    { "100.63.255.255", ADDRESS_PUBLIC },
    { "100.128.0.0", ADDRESS_PUBLIC },
    { "126.255.255.255", ADDRESS_PUBLIC },
    { "128.0.0.1", ADDRESS_PUBLIC },
    { "169.253.255.255", ADDRESS_PUBLIC },
    { "172.15.255.255", ADDRESS_PUBLIC },
    { "172.32.0.0", ADDRESS_PUBLIC },
    { "192.167.255.255", ADDRESS_PUBLIC },
    { "198.17.255.255", ADDRESS_PUBLIC },
    { "198.20.0.0", ADDRESS_PUBLIC },
    { "223.255.255.255", ADDRESS_PUBLIC },
    { "168.63.129.17", ADDRESS_PUBLIC },
    { "2606:4700::1111", ADDRESS_PUBLIC },
    { "2a00:1450::1", ADDRESS_PUBLIC },
    { "2001:200::1", ADDRESS_PUBLIC },
    { "2001:4860:4860::8888", ADDRESS_PUBLIC },
    { "0.0.0.0", ADDRESS_UNSPECIFIED },
    { "0.1.2.3", ADDRESS_UNSPECIFIED },
    { "::", ADDRESS_UNSPECIFIED },
    { "127.0.0.1", ADDRESS_LOOPBACK },
    { "127.255.255.255", ADDRESS_LOOPBACK },
    { "::1", ADDRESS_LOOPBACK },
    { "10.0.0.0", ADDRESS_PRIVATE },
    { "10.255.255.255", ADDRESS_PRIVATE },
    { "172.16.0.1", ADDRESS_PRIVATE },
    { "172.31.255.255", ADDRESS_PRIVATE },
    { "192.168.1.1", ADDRESS_PRIVATE },
    { "fc00::1", ADDRESS_PRIVATE },
    { "fdff::1", ADDRESS_PRIVATE },
    { "fec0::1", ADDRESS_PRIVATE },
    { "100.64.0.1", ADDRESS_SHARED },
    { "100.127.255.255", ADDRESS_SHARED },
    { "169.254.0.1", ADDRESS_LINK_LOCAL },
    { "fe80::1", ADDRESS_LINK_LOCAL },
    { "febf::1", ADDRESS_LINK_LOCAL },
    { "169.254.169.254", ADDRESS_METADATA },
    { "169.254.170.2", ADDRESS_METADATA },
    { "169.254.170.23", ADDRESS_METADATA },
    { "100.100.100.200", ADDRESS_METADATA },
    { "168.63.129.16", ADDRESS_METADATA },
    { "192.0.0.192", ADDRESS_METADATA },
    { "fd00:ec2::254", ADDRESS_METADATA },
    { "fd20:ce::254", ADDRESS_METADATA },
    { "fd00:ec2::23", ADDRESS_METADATA },
    { "fd00:c1::a9fe:a9fe", ADDRESS_METADATA },
    { "fe80::a9fe:a9fe", ADDRESS_METADATA },
    { "224.0.0.1", ADDRESS_MULTICAST },
    { "239.255.255.255", ADDRESS_MULTICAST },
    { "ff02::1", ADDRESS_MULTICAST },
    { "192.0.2.1", ADDRESS_DOCUMENTATION },
    { "198.51.100.1", ADDRESS_DOCUMENTATION },
    { "203.0.113.1", ADDRESS_DOCUMENTATION },
    { "2001:db8::1", ADDRESS_DOCUMENTATION },
    { "3fff:fff::1", ADDRESS_DOCUMENTATION },
    { "192.0.0.1", ADDRESS_RESERVED },
    { "192.88.99.1", ADDRESS_RESERVED },
    { "198.18.0.1", ADDRESS_RESERVED },
    { "198.19.255.255", ADDRESS_RESERVED },
    { "240.0.0.1", ADDRESS_RESERVED },
    { "255.255.255.255", ADDRESS_RESERVED },
    { "100::1", ADDRESS_RESERVED },
    { "2001:2::1", ADDRESS_RESERVED },
    { "2001:10::1", ADDRESS_RESERVED },
    { "4000::1", ADDRESS_RESERVED },
    { "5f00::1", ADDRESS_RESERVED },
    { "1::1", ADDRESS_RESERVED },
    { "64:ff9b:2::1", ADDRESS_RESERVED },
    /* an IPv4 inside: its class, and never public */
    { "::ffff:8.8.8.8", ADDRESS_EMBEDDED },
    { "::8.8.8.8", ADDRESS_EMBEDDED },
    { "::ffff:0:8.8.8.8", ADDRESS_EMBEDDED },
    { "64:ff9b::8.8.8.8", ADDRESS_EMBEDDED },
    { "64:ff9b:1::8.8.8.8", ADDRESS_EMBEDDED },
    { "2002:808:808::1", ADDRESS_EMBEDDED },
    { "2001:0:4136:e378:8000:63bf:f7f7:f7f7", ADDRESS_EMBEDDED }, /* of 8.8.8.8 */
    { "::ffff:127.0.0.1", ADDRESS_LOOPBACK },
    { "::ffff:7f00:1", ADDRESS_LOOPBACK },
    { "::ffff:10.0.0.1", ADDRESS_PRIVATE },
    { "::ffff:0.0.0.0", ADDRESS_UNSPECIFIED },
    { "::ffff:169.254.169.254", ADDRESS_METADATA },
    { "::127.0.0.1", ADDRESS_LOOPBACK },
    { "::0.0.0.2", ADDRESS_UNSPECIFIED },
    { "::ffff:0:127.0.0.1", ADDRESS_LOOPBACK },
    { "64:ff9b::a9fe:a9fe", ADDRESS_METADATA },
    { "64:ff9b::127.0.0.1", ADDRESS_LOOPBACK },
    { "64:ff9b:1::10.0.0.1", ADDRESS_PRIVATE },
    { "64:ff9b:1::169.254.169.254", ADDRESS_METADATA },
    { "64:ff9b:1:a9fe:00a9:fe00::", ADDRESS_METADATA }, /* behind a /48 */
    { "64:ff9b:1:a9:fe:a9fe::", ADDRESS_METADATA },     /* behind a /56 */
    { "64:ff9b:1:0:a9:fea9:fe00::", ADDRESS_METADATA }, /* behind a /64 */
    { "2002:7f00:1::1", ADDRESS_LOOPBACK },
    { "2002:a9fe:a9fe::", ADDRESS_METADATA },
    { "2001::5601:5601", ADDRESS_METADATA }, /* Teredo of 169.254.169.254 */
    { "2001::80ff:fffe", ADDRESS_LOOPBACK },
};

TEST(every_range)
{
    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        struct address a;
        enum address_class c;

        CHECK(address_parse(str_from(classes[i].text), &a));
        c = address_classify(&a);
        if (c != classes[i].class)
            FAIL("%s is %s (%s), not %s", classes[i].text, address_class_name(c),
                 address_reason(&a), address_class_name(classes[i].class));
        CHECK(address_grantable(&a) == (c != ADDRESS_METADATA));
        CHECK(address_reason(&a)[0]);
    }
}

TEST(the_reason_of_a_teredo_address_is_that_it_is_one)
{
    struct address a;

    CHECK(address_parse(STR("2001::1"), &a));
    CHECK_STR(str_from(address_reason(&a)), "Teredo (2001::/32)");
    CHECK_INT(address_classify(&a), ADDRESS_RESERVED);
}

TEST(every_class_has_a_name)
{
    for (int c = 0; c < ADDRESS_CLASS_COUNT_; c++)
        CHECK(address_class_name((enum address_class)c));
    CHECK_STR(str_from(address_class_name(ADDRESS_LINK_LOCAL)), "link-local");
    CHECK_STR(str_from(address_class_name(ADDRESS_CLASS_COUNT_)), "unknown");
}

/* Whatever an IPv6 form carries, all IPv4 places but public ones keep their class. */
TEST(forms_agree_with_what_they_carry)
{
    static const char *const forms[] = { "::ffff:", "::ffff:0:", "64:ff9b::", "64:ff9b:1::" };

    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        struct address v4, v6;
        char text[2 * ADDRESS_TEXT_MAX];

        CHECK(address_parse(str_from(classes[i].text), &v4));
        for (size_t k = 0; !v4.v6 && k < COUNT_OF(forms); k++) {
            enum address_class want =
                classes[i].class == ADDRESS_PUBLIC ? ADDRESS_EMBEDDED : classes[i].class;

            (void)snprintf(text, sizeof text, "%s%s", forms[k], classes[i].text);
            CHECK(address_parse(str_from(text), &v6));
            if (address_classify(&v6) != want)
                FAIL("%s is %s", text, address_class_name(address_classify(&v6)));
        }
    }
}

TEST(control_plane_ports)
{
    CHECK(port_control_plane(2379) && port_control_plane(2380) && port_control_plane(6443) &&
          port_control_plane(10250) && port_control_plane(10255));
    CHECK(!port_control_plane(443) && !port_control_plane(0) && !port_control_plane(2381));
}
