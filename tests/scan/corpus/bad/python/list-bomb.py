# Missed: one expression that takes all memory
x = [0] * 10**12
