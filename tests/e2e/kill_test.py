"""scripts/kill-test, with few kills."""
import os
import subprocess
import sys
import unittest

from support import SANITIZED

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "kill-test")


@unittest.skipIf(SANITIZED, "the sanitizers' libraries must be loaded first, and the preloaded one is")
class Kill(unittest.TestCase):
    def test_ten_kills(self):
        ran = subprocess.run([sys.executable, "-B", SCRIPT, "10"], capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("10 kills, ", ran.stdout)


if __name__ == "__main__":
    unittest.main()
