import requests
r = requests.get("https://api.example.com/items", timeout=10)
r.raise_for_status()
for item in r.json():
    print(item["name"])
