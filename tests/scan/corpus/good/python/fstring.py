name = "world"
print(f"hello {name!r} {'rm -rf /' if name else ''}")
