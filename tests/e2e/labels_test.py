"""kime score --labels: how often the answers are right, where the records say what is."""
import json
import os
import unittest

from support import DEMO, Case, kime, read


def right_of(lines):
    """Counts by question type of labelled records, and of those answered right."""
    counts = {}
    for line in lines:
        record = json.loads(line)
        kind = next(name for name in ("choice", "score", "noul") if name in record)
        settled = {"choice": lambda: record["choice"], "score": lambda: int(record["score"] + 0.5), "noul": lambda: int(record["noul"] > 0.5)}[kind]()
        labelled, right = counts.get(kind, (0, 0))
        counts[kind] = (labelled + 1, right + (settled == record["label"]))
    return counts


class Labels(Case):
    def records(self, change):
        """The demo's, after `change(index, record)`."""
        lines = []
        for index, line in enumerate(read(DEMO, "records.jsonl").splitlines()):
            record = json.loads(line)
            change(index, record)
            lines.append(json.dumps(record))
        return self.path("records.jsonl", "\n".join(lines).encode())

    def test_every_form_counts_the_same(self):
        def other(index, record):
            if index % 3 == 0:
                record["label"] = (record["label"] + 1) % len(record["options"])
        path = self.records(other)
        answers = kime("score", path, "-m", DEMO, "--emit", "answer", "--keep", "-q")
        want = right_of(answers.stdout.splitlines())
        self.assertGreater(sum(labelled - right for labelled, right in want.values()), 100)
        told = {f"kime: {kind}: {right} of {labelled} right ({100 * right / labelled:.1f} %)" for kind, (labelled, right) in want.items()}
        stats = self.path("stats.json")
        for emit in ("logits", "probs", "answer", "all"):
            ran = kime("score", path, "-m", DEMO, "--emit", emit, "--labels", "--stats", stats)
            self.assertEqual(set(ran.stderr.decode().splitlines()[1:]), told)
            self.assertEqual(json.loads(read(stats))["labels"],
                             {"unusable": 0, **{kind: {"labelled": labelled, "right": right, "accuracy": right / labelled} for kind, (labelled, right) in want.items()}})
            plain = kime("score", path, "-m", DEMO, "--emit", emit, "-q", "--labels")
            self.assertEqual((plain.stdout, plain.stderr), (ran.stdout, b""))
            self.assertEqual(plain.stdout, kime("score", path, "-m", DEMO, "--emit", emit, "-q").stdout)

    def test_labels_that_cannot_be_used(self):
        bad = ["2", 1.5, -1, None, [1], {"a": 1}, 1e300]

        def change(index, record):
            if index < len(bad):
                record["label"] = bad[index]
            elif index == len(bad):
                record["label"] = 100  # no such option: a wrong answer
            else:
                del record["label"]
        ran = kime("score", self.records(change), "-m", DEMO, "--labels")
        self.assertEqual(ran.returncode, 0)
        self.assertRegex(ran.stderr.decode(), r"\nkime: (choice|score|noul): 0 of 1 right \(0\.0 %\)\nkime: 7 labels are no number of an option\n$")

    def test_true_and_false(self):
        def change(_, record):
            if record["qtype"] == "noul":
                record["label"] = bool(record["label"])
            else:
                del record["label"]
        ran = kime("score", self.records(change), "-m", DEMO, "--labels")
        self.assertIn("kime: noul: 85 of 85 right (100.0 %)", ran.stderr.decode())
        self.assertNotIn("choice", ran.stderr.decode())

    def test_no_labels_at_all(self):
        ran = kime("score", self.records(lambda _, record: record.pop("label")), "-m", DEMO, "--labels")
        self.assertTrue(ran.stderr.decode().endswith("\nkime: no record has a label\n"))
        self.assertNotIn("label", kime("score", os.path.join(DEMO, "records.jsonl"), "-m", DEMO).stderr.decode())


if __name__ == "__main__":
    unittest.main()
