import requests
url = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"
print(requests.get(url, timeout=2).text)
