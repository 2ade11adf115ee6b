import argparse
p = argparse.ArgumentParser(description="compile and exec are words here")
p.add_argument("--eval", help="evaluate the model")
print(p.parse_args())
