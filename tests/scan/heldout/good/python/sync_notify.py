import os
import subprocess

import requests

log = subprocess.check_output(["git", "log", "--oneline", "-n", "10"], text=True)
text = "Deployed:\n" + log
requests.post(os.environ["SLACK_WEBHOOK_URL"], json={"text": text}, timeout=10)
