import importlib
import pkgutil

import plugins

registry = {}
for info in pkgutil.iter_modules(plugins.__path__):
    module = importlib.import_module(f"plugins.{info.name}")
    registry[info.name] = getattr(module, "register", lambda: None)
for name, register in registry.items():
    print(name, register())
