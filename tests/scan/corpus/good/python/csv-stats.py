import csv, statistics
with open("data.csv", newline="") as f:
    values = [float(r["value"]) for r in csv.DictReader(f)]
print(statistics.mean(values))
