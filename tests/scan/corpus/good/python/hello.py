"""Says hello. Does not run rm -rf / nor eval(base64.b64decode(x))."""
def main():
    print("hello")

if __name__ == "__main__":
    main()
