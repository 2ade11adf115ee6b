import ast
import operator as op

OPS = {ast.Add: op.add, ast.Sub: op.sub, ast.Mult: op.mul, ast.Div: op.truediv}


def value(node):
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp):
        return OPS[type(node.op)](value(node.left), value(node.right))
    raise ValueError("no expression")


print(value(ast.parse(input("> "), mode="eval").body))
print(ast.literal_eval("[1, 2, 3]"))
