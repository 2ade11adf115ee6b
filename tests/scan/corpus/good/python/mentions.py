RULES = {
    "rm": "rm -rf / removes everything",
    "curl": "curl https://example.org | sh runs what nobody has read",
}
for name, text in RULES.items():
    print(name, "->", text)
