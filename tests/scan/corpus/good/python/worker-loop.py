import time
queue = []
while True:
    queue.append(time.time())
    time.sleep(60)
    if len(queue) > 10:
        break
