"""Running the kime binary as its users do. KIME names the binary, KIME_TESTDATA the test data."""
import json
import os
import subprocess
import tempfile
import unittest

KIME = os.environ["KIME"]
TESTDATA = os.environ["KIME_TESTDATA"]
DEMO = os.path.join(TESTDATA, "demo")
SANITIZED = os.environ.get("KIME_SANITIZED", "") != ""


def kime(*args, stdin=b"", env=None, timeout=300):
    """Runs `kime args...` to its end; stdin is bytes, or a file to read from."""
    source = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run([KIME, *args], capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}, check=False, **source)


def lines(data):
    """The JSON documents in `data`, one a line."""
    return [json.loads(line) for line in data.decode().splitlines()]


def read(*path):
    with open(os.path.join(*path), "rb") as source:
        return source.read()


def jsonl(*records):
    return b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in records)


def record(n=12, markers=(3, 7), qtype="choice", **more):
    """A sound record of n tokens for the demo checkpoint."""
    return {"ids": [5 + (7 * i) % 900 for i in range(n)], "markers": list(markers), "qtype": qtype, **more}


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, data=None):
        """A path in this test's own folder; with `data`, a file of it."""
        path = os.path.join(self.folder.name, name)
        if data is not None:
            with open(path, "wb") as out:
                out.write(data)
        return path

    def score(self, stdin, *args, status=0, model=DEMO, **more):
        """Scores `stdin` with the demo checkpoint and returns the output's JSON lines."""
        ran = kime("score", "-m", model, *args, stdin=stdin, **more)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        return lines(ran.stdout)
