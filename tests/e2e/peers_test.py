"""What scripts/bench-peers makes of its runs: medians, agreement, the table and the chart. No peer runs here:
a stub stands in for them."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from types import SimpleNamespace
from xml.etree import ElementTree

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
sys.path.insert(0, os.path.join(SCRIPTS, "peers"))
import chart  # noqa: E402
import findings  # noqa: E402
import programs  # noqa: E402

SAME = findings.Agreement(2e-5, 0.0, 1.0)
SHIFTED = findings.Agreement(0.4, 0.0123, 0.985)


def pair(precision="f32", peer="PyTorch", kime=(100, 300, 200, 240), other=(50, 100, 80, 90), ours=SAME, theirs=SAME):
    return findings.Pair(precision, peer, list(kime), list(other), "1,024 tokens, 8 records", ours, theirs)


def scores(*logits):
    return [{"id": i, "logits": list(each), "act": [0, 0]} for i, each in enumerate(logits)]


class Findings(unittest.TestCase):
    def test_medians_and_the_range_of_rounds(self):
        made = pair()
        self.assertEqual((made.kime, made.other), (220, 85))
        self.assertAlmostEqual(made.ratio, 220 / 85)
        self.assertEqual(made.range, (440 / 170, 400 / 150))

    def test_agreement(self):
        wanted = scores([0, 1], [], [2, -1, 0])
        same = findings.compare(wanted, wanted)
        self.assertEqual((same.largest, same.shift, same.same), (0, 0, 1))
        other = findings.compare(scores([1, 0], [], [2, -1, 0]), wanted)
        self.assertEqual((other.largest, other.same), (1, 0.5))
        p = findings.softmax([0, 1])
        self.assertAlmostEqual(other.shift, 2 * (p[1] - p[0]) / 5)

    def test_scores_of_other_records_are_refused(self):
        with self.assertRaises(ValueError):
            findings.compare(scores([0]), scores([0], [1]))
        with self.assertRaises(ValueError):
            findings.compare(scores([0]), scores([0, 1]))

    def test_softmax_takes_any_logit(self):
        self.assertEqual(findings.softmax([1e4, -1e4]), [1, 0])


class Runs(unittest.TestCase):
    def test_in_turn(self):
        order, told = [], []

        class Program:
            def __init__(self, name):
                self.name = name

            def once(self):
                order.append(self.name)
                return len(order)

        rates = programs.in_turn(Program("a"), Program("b"), 2, told.append)
        self.assertEqual("".join(order), "abbaabba")
        self.assertEqual(rates, ([1, 4, 5, 8], [2, 3, 6, 7]))
        self.assertEqual(len(told), 2)

    def test_the_fastest_batch_is_kept(self):
        setting = SimpleNamespace(folder=".", python="python", model="m", records="r", threads=2)
        peer = programs.pytorch(setting, "bf16")
        peer.at = lambda batch, *more: {(512, 4): 5.0, (1024, 8): 7.0}[batch]
        peer.choose_batch([(512, 4), (1024, 8)], 10)
        self.assertEqual(peer.detail, "1,024 tokens, 8 records")
        self.assertIn("--bf16", peer.command)
        self.assertNotIn("--bf16", programs.pytorch(setting, "f32").command)

    def test_a_failure_has_the_programs_last_words(self):
        with self.assertRaisesRegex(programs.Failed, "status 3: the end"):
            programs.run([sys.executable, "-c", "import sys; print('first\\nthe end', file=sys.stderr); sys.exit(3)"])


class Chart(unittest.TestCase):
    pairs = [pair(), pair(peer="ONNX Runtime", kime=(90, 110), other=(60, 60)), pair("int8", "<ORT & co>", ours=SAME, theirs=SHIFTED)]

    def test_the_table(self):
        text = chart.table(self.pairs, ["a fact"])
        rows = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(len(rows), 2 + len(self.pairs))
        self.assertEqual({row.count("|") for row in rows}, {8})
        self.assertIn("| float32 | PyTorch | 220 | 85 | 2.59 times as fast | 2.59 to 2.67 | 1,024 tokens, 8 records |", rows)
        self.assertIn("float32, kime and PyTorch: logits within 2e-05", text)
        self.assertIn("<ORT & co> against kime's float32: probabilities shift by 0.0123 in the mean, 98.5 % the same answers", text)

    def test_bars_are_grouped_by_precision(self):
        (first, programs_f32), (second, _) = chart.bars(self.pairs)
        self.assertEqual((first, second), ("f32", "int8"))
        self.assertEqual(programs_f32, [("kime", 155), ("PyTorch", 85), ("ONNX Runtime", 60)])

    def test_the_chart_is_sound_svg(self):
        text = chart.svg(self.pairs, "a note & more")
        root = ElementTree.fromstring(text)
        space = "{http://www.w3.org/2000/svg}"
        ids = root.get("aria-labelledby").split()
        self.assertEqual([root.find(f"{space}{tag}").get("id") for tag in ("title", "desc")], ids)
        self.assertIn("PyTorch 85", root.find(f"{space}desc").text)
        self.assertIn("prefers-color-scheme: dark", text)
        drawn = [rect for rect in root.findall(f"{space}rect") if rect.get("class") != "page"]
        self.assertEqual(len(drawn), 5)
        longest = max(drawn, key=lambda rect: float(rect.get("width")))
        self.assertEqual(longest.get("class"), "kime")
        height = float(root.get("viewBox").split()[3])
        self.assertTrue(all(float(each.get("y")) < height for each in root.iter() if each.get("y")))
        self.assertFalse(re.search(r"https?://(?!www\.w3\.org/2000/svg)", text))


# Stands in for the peers' Python: kime's own scores, at a speed of its own.
STUB = """#!{python}
import json, os, subprocess, sys
args = sys.argv[1:]
if args[0] == "-c":
    sys.exit(print("stub 1.0"))
if os.environ.get("FAIL") and "--bf16" in args:
    sys.exit("no bfloat16 here")
with open(args[args.index("--out") + 1] if "--out" in args else os.devnull, "wb") as out:
    subprocess.run([os.environ["KIME"], "score", "-q", *args[2:3], "-m", args[1]], stdout=out, check=True)
print(json.dumps({{"tokens_per_second": 1000.0 + 10 * ("16" in args)}}))
"""


class Command(unittest.TestCase):
    def bench(self, folder, *args, **env):
        stub = os.path.join(folder, "python")
        with open(stub, "w", encoding="utf-8") as out:
            out.write(STUB.format(python=sys.executable))
        os.chmod(stub, 0o755)
        records = os.path.join(folder, "records.jsonl")
        demo = os.path.join(os.environ["KIME_TESTDATA"], "demo")
        with open(os.path.join(demo, "records.jsonl"), encoding="utf-8") as source, open(records, "w", encoding="utf-8") as out:
            out.writelines(source.readlines()[:8])
        command = [os.path.join(SCRIPTS, "bench-peers"), "--kime", os.environ["KIME"], "--python", stub, "--model", demo, "--records", records,
                   "--rounds", "2", "--threads", "2", "--out", os.path.join(folder, "out"), *args]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=600, check=False)

    def test_all_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.bench(folder, "--precisions", "f32")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            with open(os.path.join(folder, "out", "peers.md"), encoding="utf-8") as source:
                text = source.read()
            self.assertEqual(text, ran.stdout)
            self.assertIn("8 records, 2 rounds", text)
            self.assertIn("logits within 0e+00", text)
            self.assertEqual(text.count("| 1,010 |"), 2)
            self.assertEqual(text.count("| 2,048 tokens, 16 records |"), 2)
            ElementTree.parse(os.path.join(folder, "out", "peers.svg"))

    def test_a_peer_that_fails_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = self.bench(folder, "--precisions", "f32,bf16", FAIL="1")
            self.assertEqual(ran.returncode, 1, ran.stderr)
            self.assertIn("left out: python ended with status 1: no bfloat16 here", ran.stderr)
            self.assertIn("| float32 | ONNX Runtime |", ran.stdout)
            self.assertNotIn("bfloat16", ran.stdout)

    def test_wrong_usage(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.bench(folder, "--precisions", "f64").returncode, 2)
            self.assertEqual(self.bench(folder, "--rounds", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
