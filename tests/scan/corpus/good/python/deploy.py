import paramiko
c = paramiko.SSHClient()
c.load_system_host_keys()
c.connect("app.example.com", username="deploy")
c.exec_command("systemctl --user restart app")
