import base64, json
token = "eyJhIjogMX0="
print(json.loads(base64.b64decode(token)))
