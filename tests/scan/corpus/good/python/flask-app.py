from flask import Flask, request
app = Flask(__name__)

@app.post("/echo")
def echo():
    return request.get_json()

app.run(port=5000)
