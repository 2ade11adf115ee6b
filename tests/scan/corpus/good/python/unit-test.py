import unittest

class T(unittest.TestCase):
    def test_refuses(self):
        self.assertRaises(ValueError, int, "rm -rf /")

unittest.main()
