from flask import Flask, jsonify, request
import os

app = Flask(__name__)
app.secret_key = os.environ["SECRET_KEY"]
items = {}


@app.post("/items")
def create():
    body = request.get_json()
    items[len(items) + 1] = body
    return jsonify(id=len(items)), 201


@app.delete("/items/<int:item>")
def remove(item):
    items.pop(item, None)
    return "", 204


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(os.environ.get("PORT", 5000)))
