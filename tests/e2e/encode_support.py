"""Running scripts/kime-encode as its users do, with a Python that has the package tokenizers: KIME_PYTHON, build/venv (made by
scripts/setup --checks), or the Python that runs the test."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest

from support import DEMO, Case, lines

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENCODE = os.path.join(ROOT, "scripts", "kime-encode")
VENV = os.path.join(ROOT, "build", "venv", "bin", "python")
THERE = importlib.util.find_spec("tokenizers") is not None
ASK = {"type": "noul", "instructions": "Is it late?"}


def request(state="Where is it?", name="q", question=None, **more):
    return {**more, "state": state, "questions": {name: question or ASK}}


def start(*args, **more):
    return subprocess.Popen([sys.executable, "-B", ENCODE, "-m", DEMO, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def encode(*args, stdin=b"", model=DEMO, env=None, **more):
    return subprocess.run([sys.executable, "-B", ENCODE, *(["-m", model] if model else []), *args], input=stdin, capture_output=True, timeout=120,
                          check=False, env={**os.environ, **(env or {})}, **more)


@unittest.skipUnless(THERE, "the Python package tokenizers is not here: scripts/setup --checks puts it into build/venv, or set KIME_PYTHON")
class EncodeCase(Case):
    def records(self, *args, status=0, **more):
        ran = encode(*args, **more)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        return lines(ran.stdout)

    def checkpoint(self, **config):
        """The demo's tokenizer with limits of its own."""
        folder = self.path("checkpoint")
        os.makedirs(folder)
        shutil.copytree(os.path.join(DEMO, "tokenizer"), os.path.join(folder, "tokenizer"))
        with open(os.path.join(folder, "rl_agent_config.json"), "w", encoding="utf-8") as out:
            json.dump(config, out)
        return folder


def run():
    """The tests, by the Python that has tokenizers; where one is named that has not, they fail."""
    python = os.environ.get("KIME_PYTHON") or (VENV if os.path.exists(VENV) else sys.executable)
    if not THERE and os.environ.get("KIME_PYTHON_TRIED") != python:
        os.environ["KIME_PYTHON_TRIED"] = python
        os.execv(python, [python, "-B", *sys.argv])
    if not THERE and "KIME_PYTHON" in os.environ:
        sys.exit(f"KIME_PYTHON is {python}, which has no package tokenizers")
    unittest.main()
