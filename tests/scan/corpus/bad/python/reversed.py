import os
f = getattr(os, "metsys"[::-1])
f("id")
