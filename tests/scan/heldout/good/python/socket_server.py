import socketserver


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            line = self.rfile.readline()
            if not line:
                break
            self.wfile.write(line)


with socketserver.ThreadingTCPServer(("127.0.0.1", 7007), Echo) as s:
    s.serve_forever()
