import os
pid = os.fork()
if pid == 0:
    os.execvp("ls", ["ls", "-l"])
os.waitpid(pid, 0)
