import base64
import json
import os
from pathlib import Path

path = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "tool" / "config.json"
config = json.loads(path.read_text()) if path.exists() else {}
avatar = base64.b64decode(config.get("avatar", ""))
Path("avatar.png").write_bytes(avatar)
print(sorted(config))
