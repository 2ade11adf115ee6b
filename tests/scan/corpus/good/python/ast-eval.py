import ast
print(ast.literal_eval("{'a': 1}"))
