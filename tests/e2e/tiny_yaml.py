# SPDX-License-Identifier: Apache-2.0
"""Reads the YAML that `-o yaml` prints: block maps and lists, flow `{}` and `[]`, plain and double-quoted scalars.
A second reader, so that what we print is not only right for those who wrote the printer."""

import json
import re

from harness import Failure

PLAIN = {"null": None, "~": None, "": None, "true": True, "false": False}
# Words that other readers of YAML take for something else than a text.
SURPRISING = re.compile(r"(?i)^(y|yes|n|no|on|off|true|false|null|~|[-+.]?(inf|nan)|[-+]?0[xob][0-9a-f_]+|=|<<)$")
NUMBER = re.compile(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$")
LOOKS_NUMERIC = re.compile(r"^[-+]?[0-9.][0-9_.:eE+-]*$")


def scalar(text):
    if text in ("{}", "[]"):
        return json.loads(text)
    if text.startswith('"'):
        return json.loads(text)
    if text in PLAIN:
        return PLAIN[text]
    if NUMBER.match(text):
        return json.loads(text)
    if SURPRISING.match(text) or LOOKS_NUMERIC.match(text) or re.match(r"^[-?:,\[\]{}#&*!|>'\"%@`]", text) \
            or ": " in text or " #" in text or text.endswith(":") or text != text.strip():
        raise Failure(f"yaml: {text!r} must be in quotes")
    return text


def split_key(text):
    if text.startswith('"'):
        key, end = json.JSONDecoder().raw_decode(text)
        if text[end:end + 1] != ":":
            return None
        return key, text[end + 1:].strip()
    found = re.match(r"^([^\s\"'{}\[\]#&*!|>%@`,][^:]*):(?: (.*))?$", text)
    return (scalar(found[1]), (found[2] or "").strip()) if found else None


class Reader:
    def __init__(self, text):
        self.lines = [(len(x) - len(x.lstrip(" ")), x.strip()) for x in text.splitlines() if x.strip() not in ("", "---")]
        self.at = 0

    def block(self, indent):
        first = self.lines[self.at][1]
        if first == "-" or first.startswith("- "):
            return self.sequence(indent)
        return self.mapping(indent)

    def here(self, indent):
        return self.at < len(self.lines) and self.lines[self.at][0] == indent

    def is_item(self):
        text = self.lines[self.at][1]
        return text == "-" or text.startswith("- ")

    def value(self, indent, text):
        """What stands behind a key or a dash on its line, or below it."""
        if text:
            return scalar(text)
        below = self.lines[self.at][0] if self.at < len(self.lines) else -1
        if below > indent or (below == indent and self.is_item()):
            return self.block(below)
        return None

    def sequence(self, indent):
        items = []
        while self.here(indent) and self.is_item():
            text = self.lines[self.at][1][1:].strip()
            if text and split_key(text) and not text.startswith("{"):
                self.lines[self.at] = (indent + 2, text)
                items.append(self.mapping(indent + 2))
            else:
                self.at += 1
                items.append(self.value(indent, text))
        return items

    def mapping(self, indent):
        entries = {}
        while self.here(indent) and not self.is_item():
            pair = split_key(self.lines[self.at][1])
            if not pair:
                raise Failure(f"yaml: no key in {self.lines[self.at][1]!r}")
            self.at += 1
            if pair[0] in entries:
                raise Failure(f"yaml: {pair[0]!r} comes twice")
            entries[pair[0]] = self.value(indent, pair[1])
        return entries


def read(text):
    reader = Reader(text)
    value = reader.block(0)
    if reader.at != len(reader.lines):
        raise Failure(f"yaml: not understood: {reader.lines[reader.at][1]!r}")
    return value
