# SPDX-License-Identifier: Apache-2.0
"""What OCSF 1.8 demands of an event, as far as we write events: classes, the attributes we use of them with their types,
which are required, which values an enumeration has and what each is called.

    flaws(event)       # [] or what is wrong with it, as sentences
"""

import ipaddress
import re

# ---- enumerations: value -> caption -----------------------------------------------------------------

SEVERITIES = {0: "Unknown", 1: "Informational", 2: "Low", 3: "Medium", 4: "High", 5: "Critical", 6: "Fatal", 99: "Other"}
STATUSES = {0: "Unknown", 1: "Success", 2: "Failure", 99: "Other"}
ACTIONS = {0: "Unknown", 1: "Allowed", 2: "Denied", 3: "Observed", 4: "Modified", 99: "Other"}
DISPOSITIONS = {0: "Unknown", 1: "Allowed", 2: "Blocked", 6: "Dropped", 15: "Detected", 16: "No Action", 17: "Logged",
                21: "Reset", 25: "Rejected", 26: "Unauthorized", 27: "Error", 99: "Other"}
DIRECTIONS = {0: "Unknown", 1: "Inbound", 2: "Outbound", 3: "Lateral", 4: "Local", 99: "Other"}
DEVICES = {0: "Unknown", 1: "Server", 2: "Desktop", 3: "Laptop", 4: "Tablet", 5: "Mobile", 6: "Virtual", 99: "Other"}
FILES = {0: "Unknown", 1: "Regular File", 2: "Folder", 7: "Symbolic Link", 8: "Executable File", 99: "Other"}
ALGORITHMS = {0: "Unknown", 1: "MD5", 2: "SHA-1", 3: "SHA-256", 4: "SHA-512", 99: "Other"}
METHODS = ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
PROFILES = ("cloud", "container", "datetime", "host", "network_proxy", "osint", "security_control")

# ---- types ------------------------------------------------------------------------------------------


def is_text(value):
    return isinstance(value, str) and value != ""


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool) and -2**63 <= value < 2**63


def is_time(value):
    """Milliseconds, and of this century: not seconds, nor nanoseconds."""
    return is_number(value) and 946684800000 <= value < 4102444800000


def is_port(value):
    return is_number(value) and 0 <= value <= 65535


def is_address(value):
    try:
        return isinstance(value, str) and bool(ipaddress.ip_address(value))
    except ValueError:
        return False


def is_hash(value):
    return isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{64}", value)


def is_version(value):
    return isinstance(value, str) and re.fullmatch(r"1\.\d+\.\d+", value)


def is_profiles(value):
    return isinstance(value, list) and value and all(name in PROFILES for name in value)


def is_method(value):
    return value in METHODS


def is_anything(value):
    return isinstance(value, dict)


# ---- objects: attribute -> type, object, [object] or enumeration; ! is required ------------------------

OBJECTS = {
    "product": {"name": is_text, "vendor_name!": is_text, "version": is_text, "uid": is_text},
    "metadata": {"version!": is_version, "product!": "product", "profiles": is_profiles, "uid": is_text,
                 "correlation_uid": is_text, "sequence": is_number},
    "container": {"uid": is_text, "name": is_text},
    "network_endpoint": {"hostname": is_text, "ip": is_address, "port": is_port, "instance_uid": is_text, "name": is_text,
                         "uid": is_text, "container": "container"},
    "connection_info": {"direction_id!": DIRECTIONS, "direction": "direction_id", "protocol_num": is_number,
                        "protocol_name": is_text, "uid": is_text},
    "policy": {"name": is_text, "uid": is_text, "version": is_text},
    "firewall_rule": {"name": is_text, "uid": is_text, "type": is_text},
    "fingerprint": {"algorithm_id!": ALGORITHMS, "algorithm": "algorithm_id", "value!": is_hash},
    "file": {"name!": is_text, "type_id!": FILES, "type": "type_id", "path": is_text, "hashes": ["fingerprint"]},
    "user": {"uid": is_text, "name": is_text},
    "process": {"pid": is_number, "uid": is_text, "file": "file", "user": "user", "name": is_text},
    "actor": {"process": "process", "user": "user"},
    "device": {"type_id!": DEVICES, "type": "type_id", "uid": is_text, "name": is_text, "hostname": is_text, "ip": is_address},
    "url": {"hostname": is_text, "path": is_text, "port": is_port, "scheme": is_text},
    "http_request": {"http_method": is_method, "url": "url", "version": is_text},
    "dns_query": {"hostname!": is_text, "type": is_text, "class": is_text},
    "traffic": {"bytes": is_number, "bytes_in": is_number, "bytes_out": is_number},
}
ONE_OF = {  # at least one of these
    "container": ("uid", "name"), "policy": ("name", "uid"), "firewall_rule": ("name", "uid"), "user": ("uid", "name"),
    "network_endpoint": ("ip", "uid", "name", "hostname", "instance_uid"), "process": ("pid", "uid"),
    "device": ("ip", "uid", "name", "hostname"), "actor": ("process", "user"),
    4001: ("dst_endpoint", "src_endpoint"), 4002: ("http_request",), 4003: ("query",),
}
EVENT = {"time!": is_time, "class_uid!": is_number, "class_name": is_text, "category_uid!": is_number, "category_name": is_text,
         "activity_id!": is_number, "activity_name": is_text, "type_uid!": is_number, "type_name": is_text,
         "severity_id!": SEVERITIES, "severity": "severity_id", "status_id": STATUSES, "status": "status_id", "status_code": is_text,
         "status_detail": is_text, "message": is_text, "metadata!": "metadata", "count": is_number, "start_time": is_time,
         "end_time": is_time, "duration": is_number, "unmapped": is_anything}
BY_PROFILE = {"security_control": {"action_id": ACTIONS, "action": "action_id", "disposition_id": DISPOSITIONS,
                                   "disposition": "disposition_id", "policy": "policy", "firewall_rule": "firewall_rule"},
              "host": {"actor": "actor", "device": "device"}}
NETWORK = {"src_endpoint": "network_endpoint", "dst_endpoint": "network_endpoint", "connection_info": "connection_info",
           "traffic": "traffic"}
CLASSES = {  # name, category, its name, activities, attributes
    4001: ("Network Activity", 4, "Network Activity",
           {1: "Open", 2: "Close", 3: "Reset", 4: "Fail", 5: "Refuse", 6: "Traffic", 7: "Listen"}, NETWORK),
    4002: ("HTTP Activity", 4, "Network Activity",
           {1: "Connect", 2: "Delete", 3: "Get", 4: "Head", 5: "Options", 6: "Post", 7: "Put", 8: "Trace", 9: "Patch", 99: "Other"},
           {**NETWORK, "http_request": "http_request"}),
    4003: ("DNS Activity", 4, "Network Activity", {1: "Query", 2: "Response", 6: "Traffic", 99: "Other"}, {**NETWORK, "query": "dns_query"}),
    5019: ("Device Config State Change", 5, "Discovery", {1: "Log", 2: "Collect"}, {"device!": "device", "actor": "actor"}),
}

# ---- checking ---------------------------------------------------------------------------------------


def flaws_of_value(where, value, kind, siblings):
    if callable(kind):
        return [] if kind(value) else [f"{where} is {value!r}"]
    if isinstance(kind, dict):
        return [] if is_number(value) and value in kind else [f"{where} is {value!r}"]
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [flaw for each in value for flaw in flaws_of_object(f"{where}[]", each, OBJECTS[kind[0]], kind[0])]
    if kind.endswith("_id"):
        enumeration, number = siblings
        return [] if value == enumeration.get(number) or number == 99 else [f"{where} is {value!r}, which is not that of {number}"]
    return flaws_of_object(where, value, OBJECTS[kind], kind)


def flaws_of_object(where, value, attributes, name):
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    known = {key.rstrip("!"): kind for key, kind in attributes.items()}
    found = [f"{where}.{key} is not an attribute of {name}" for key in value if key not in known]
    found += [f"{where} has no {key[:-1]}" for key in attributes if key.endswith("!") and key[:-1] not in value]
    if name in ONE_OF and not any(key in value for key in ONE_OF[name]):
        found.append(f"{where} has none of {ONE_OF[name]}")
    for key, kind in known.items():
        if key in value:
            siblings = (known[kind], value.get(kind)) if isinstance(kind, str) and kind.endswith("_id") else None
            found += flaws_of_value(f"{where}.{key}", value[key], kind, siblings)
    return found


def flaws(event):
    if not isinstance(event, dict) or event.get("class_uid") not in CLASSES:
        return [f"of no class that we write: {event}"]
    uid, activity = event["class_uid"], event.get("activity_id")
    name, category, category_name, activities, attributes = CLASSES[uid]
    attributes = {**EVENT, **attributes}
    for profile in event.get("metadata", {}).get("profiles", ()):
        attributes = {**BY_PROFILE.get(profile, {}), **attributes}
    wanted = {"class_name": name, "category_uid": category, "category_name": category_name, "activity_name": activities.get(activity),
              "type_uid": uid * 100 + (activity or 0), "type_name": f"{name}: {activities.get(activity)}"}
    found = [f"{key} is {event.get(key)!r}, not {value!r}" for key, value in wanted.items() if event.get(key) != value]
    return found + flaws_of_object("event", event, attributes, uid)


def flaws_of(events):
    """The flaws of all events, each kind of flaw once, with an event that has it."""
    found = {}
    for event in events:
        for flaw in flaws(event):
            found.setdefault(re.sub(r"\d+", "N", flaw), f"OCSF: {flaw}: {event}")
    return list(found.values())
