import zlib
with open("page.z", "rb") as f:
    text = zlib.decompress(f.read()).decode()
print(text[:100])
