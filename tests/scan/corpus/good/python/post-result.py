import json
import urllib.request
body = json.dumps({"result": sum(range(10))}).encode()
urllib.request.urlopen(urllib.request.Request("https://ci.example.com/report", data=body))
