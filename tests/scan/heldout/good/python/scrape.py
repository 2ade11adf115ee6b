import csv
import sys
import urllib.request
from html.parser import HTMLParser


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs).get("href", ""))


page = urllib.request.urlopen(sys.argv[1], timeout=20).read().decode("utf-8", "replace")
p = Links()
p.feed(page)
csv.writer(sys.stdout).writerows([x] for x in p.found)
