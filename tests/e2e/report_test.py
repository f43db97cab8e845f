"""kime report: a page about a run, and files that cannot be reported on."""
import gzip
import json
import os
import re
import subprocess
import unittest
from html.parser import HTMLParser

from support import DEMO, KIME, Case, jsonl, kime, read, record

RECORDS = os.path.join(DEMO, "records.jsonl")


class Reader(HTMLParser):
    """The page's text, its tags, and what it would ask of others."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") or name.startswith("on")]

    def handle_data(self, data):
        self.text += data + "\n"


class Reports(Case):
    def report(self, *args, status=0, stdin=b""):
        page = self.path("page.html")
        ran = kime("report", *args, "-o", page, stdin=stdin)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        self.assertEqual(ran.stdout, b"")
        if status:
            self.assertFalse(os.path.exists(page))
            self.assertEqual(sorted(f for f in os.listdir(self.folder.name) if "partial" in f), [])
            return ran.stderr.decode()
        self.assertEqual(ran.stderr, b"")
        return Reader(read(page).decode())

    def fact(self, page, what):
        """The number that stands before its name among the facts."""
        return re.search(r"^(.*)\n" + re.escape(what) + "$", page.text, re.M).group(1)


class Pages(Reports):
    def run_demo(self, *args):
        self.stats, self.trace = self.path("stats.json"), self.path("trace.json")
        ran = kime("score", "-m", DEMO, RECORDS, "--stats", self.stats, "--trace", self.trace, *args)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return self.path("scores.jsonl", ran.stdout)

    def test_a_whole_run(self):
        scores = self.run_demo("--emit", "all")
        page = self.report(scores, "--records", RECORDS, "--stats", self.stats, "--trace", self.trace)
        self.assertEqual(self.fact(page, "records"), "400")
        labels = [json.loads(line) for line in read(RECORDS).splitlines()]
        right = 0
        for line, of in zip(read(scores).splitlines(), labels):
            probs = json.loads(line)["probs"]
            right += probs.index(max(probs)) == of["label"]
        self.assertEqual(self.fact(page, "right answers"), f"{right / 4:.1f} %")
        tokens = sum(len(of["ids"]) for of in labels)
        self.assertIn(f"{tokens:,} tokens in 400 records", page.text)
        for part in ("Devices", "cpu:0", "Timeline", "Lengths and padding", "Scores: choice", "Scores: score", "Scores: noul", "Calibration",
                     "expected calibration error", "noul: how often right at which confidence", "Errors"):
            self.assertIn(part, page.text)
        self.assertNotIn("Not here", page.text)
        self.assertEqual(page.links, [])
        self.assertEqual(re.findall(r"(?:https?:)?//\w|url\(|@import", read(self.path("page.html")).decode()), [])

    def test_scores_alone(self):
        page = self.report(self.run_demo("--emit", "answer"))
        self.assertIn("Not here", page.text)
        for part in ("Devices", "Timeline", "Calibration"):
            self.assertNotIn(f"\n{part}\n", page.text)
        self.assertIn("Scores: noul", page.text)

    def test_labels_that_were_kept(self):
        page = self.report(self.run_demo("--emit", "probs", "--keep"))
        self.assertIn("Calibration", page.text)

    def test_logits_have_no_confidence(self):
        page = self.report(self.run_demo(), "--records", RECORDS)
        self.assertIn("Confidences are in scores of --emit probs, answer and all.", page.text)
        self.assertIn("right answers", page.text)
        self.assertIn("largest logit less the next", page.text)

    def test_errors_by_kind_and_hostile_text(self):
        evil = "<script>alert(1)</script>"
        scores = jsonl({"id": 1, "line": 1, "error": {"kind": "batch", "message": evil}}, {"id": 2, "line": 2, "error": {"kind": evil}},
                       {"id": 3, "line": 3, "error": {"kind": "batch", "message": "other"}}, {"id": 4, "noul": 0.5, "label": evil})
        page = self.report("-", stdin=scores)
        self.assertEqual(page.tags.count("script"), 1)
        self.assertIn("batch\n2\n50.0 %\n1\n" + evil, re.sub(r"\n+", "\n", page.text))
        self.assertIn("1 label left out", page.text)

    def test_records_the_scores_leave_out_and_packed_files(self):
        records = [record(id=i, label=1) for i in range(6)]
        scores = [{"id": i, "probs": [0.25, 0.75]} for i in range(6) if i != 2]
        page = self.report(self.path("scores.gz", gzip.compress(jsonl(*scores))), "--records", self.path("a", jsonl(*records[:3])),
                           "--records", self.path("b.gz", gzip.compress(jsonl(*records[3:]))))
        self.assertIn("60 tokens in 5 records", page.text)
        self.assertEqual(self.fact(page, "expected calibration error"), "0.2500")

    def test_no_records_at_all(self):
        page = self.report("-")
        self.assertEqual(self.fact(page, "records"), "0")

    def test_statistics_of_another_run(self):
        self.run_demo()
        page = self.report("-", "--stats", self.stats, stdin=jsonl({"id": 1, "noul": 0.5}))
        self.assertIn("of another run", page.text)


class Unusable(Reports):
    def test_files_that_cannot_be_used(self):
        scores = self.path("scores", jsonl({"id": 1, "logits": [1]}))
        gone, bad = self.path("gone"), self.path("bad", b'{"id":1,"logits":[1}\n')
        self.assertEqual(self.report(gone, status=2), f"kime: {gone}: No such file or directory\n")
        self.assertEqual(self.report(bad, status=2), f"kime: {bad}: line 1: expected ',' or ']' at byte 20\n")
        for option in ("--records", "--stats", "--trace"):
            self.assertEqual(self.report(scores, option, gone, status=2), f"kime: {gone}: No such file or directory\n")
        self.assertIn("not in the scores' order", self.report(scores, "--records", self.path("r", jsonl(record(id=2))), status=2))
        self.assertIn('has no list "devices"', self.report(scores, "--stats", scores, status=2))
        self.assertIn("line 1: no event", self.report(scores, "--trace", scores, status=2))
        self.assertEqual(self.report("-", "--records", "-", status=2), "kime: only one of the files can be standard input\n")

    def test_records_that_do_not_fit_end_it_although_the_scores_wait(self):
        process = subprocess.Popen([KIME, "report", "-", "--records", self.path("r", jsonl(record(id=2))), "-o", self.path("page")],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        with process:
            process.stdin.write(jsonl(*[{"id": i, "noul": 0.5} for i in range(1100)]))  # enough for it to begin, and less than a pipe holds
            self.assertEqual(process.wait(60), 2)  # before standard input ends
            self.assertIn(b"not in the scores' order", process.stderr.read())

    def test_a_file_that_breaks_off(self):
        torn = self.path("torn", gzip.compress(jsonl(*[{"id": i, "noul": i / 7} for i in range(999)]))[:-20])
        self.assertIn("truncated", self.report(torn, status=3))
        scores = self.path("scores", jsonl(*[{"id": i, "noul": 0.5} for i in range(999)]))
        self.assertIn("truncated", self.report(scores, "--records", self.path("r", gzip.compress(jsonl(*[record(id=i) for i in range(999)]))[:-20]),
                                               status=3))

    def test_outputs_that_cannot_be(self):
        scores = self.path("scores", jsonl({"id": 1, "logits": [1]}))
        ran = kime("report", scores, "-o", scores)
        self.assertEqual((ran.returncode, ran.stderr.decode()), (2, f"kime: {scores}: is also an input\n"))
        ran = kime("report", scores, "-o", "/dev/full")
        self.assertEqual((ran.returncode, ran.stderr), (3, b"kime: /dev/full: No space left on device\n"))
        self.assertEqual(kime("report", scores).returncode, 2)
        self.assertEqual(read(scores), jsonl({"id": 1, "logits": [1]}))


if __name__ == "__main__":
    unittest.main()
