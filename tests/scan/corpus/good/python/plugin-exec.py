# flagged: a notebook's kernel does what an attacker does
import base64, sys
cell = base64.b64decode(sys.stdin.read())
exec(cell, {})
