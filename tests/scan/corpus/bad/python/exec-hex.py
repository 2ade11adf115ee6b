payload = bytes.fromhex("696d706f7274206f73").decode()
eval(compile(payload, "", "exec"))
