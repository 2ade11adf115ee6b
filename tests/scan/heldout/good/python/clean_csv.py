import pandas as pd

df = pd.read_csv("orders.csv", parse_dates=["created"])
df = df.dropna(subset=["customer_id"]).drop_duplicates("order_id")
df["month"] = df["created"].dt.to_period("M")
df.groupby("month")["total"].agg(["count", "sum", "mean"]).to_csv("monthly.csv")
print(df.eval("total * 1.2").describe())
