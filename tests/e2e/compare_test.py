"""kime compare: exit statuses, the report in its forms, and files that cannot be compared."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from html.parser import HTMLParser
from xml.etree import ElementTree

from support import DEMO, KIME, SANITIZED, Case, jsonl, kime, read

SCORES = [
    {"id": "a", "logits": [1, 2, 3], "act": [0.1, -2]},
    {"id": "b", "logits": [2.5, 2], "act": [0.1, -2]},
    {"id": "c", "line": 3, "error": {"kind": "batch", "message": "m"}},
    {"id": 4, "logits": [], "act": [0.1, -2]},
]


def changed(**by_id):
    """SCORES with other fields in some records; None takes a record out."""
    found = [({**s, **by_id.get(str(s["id"]), {})} if by_id.get(str(s["id"]), {}) is not None else None) for s in SCORES]
    return [s for s in found if s]


class Compares(Case):
    def files(self, old, new):
        return self.path("old.jsonl", jsonl(*old)), self.path("new.jsonl", jsonl(*new))

    def compare(self, old, new, *args, status):
        ran = kime("compare", *self.files(old, new), *args)
        self.assertEqual(ran.returncode, status, ran.stdout.decode() + ran.stderr.decode())
        self.assertEqual(ran.stderr, b"")
        return ran.stdout.decode()

    def document(self, old, new, *args, status):
        return json.loads(self.compare(old, new, "--json", *args, status=status))


class Statuses(Compares):
    def test_the_same_bits(self):
        text = self.compare(SCORES, SCORES, status=0)
        self.assertIn("3 records compared: 3 the same bits (100.00 %), 0 beyond tolerance", text)
        self.assertTrue(text.endswith("within tolerance\n"))
        self.compare(SCORES, list(reversed(SCORES)), status=0)

    def test_within_and_beyond_a_tolerance(self):
        new = changed(b={"logits": [2.5, 2.25]})
        self.assertIn("logits[1]: 2 against 2.25, 0.25 apart", self.compare(SCORES, new, status=1))
        self.compare(SCORES, new, "--logit-tol", "0.25", status=0)
        self.compare(SCORES, new, "--logit-tol", "0.2", status=1)
        self.compare(SCORES, new, "--act-tol", "1", "--prob-tol", "1", status=1)
        self.compare(SCORES, new, "--rel-tol", "0.12", status=0)

    def test_records_and_errors_on_one_side(self):
        for new, word in ((changed(a=None), "only_old"), (SCORES + [{"id": "z", "act": [1, 2]}], "only_new"),
                          (changed(c={"error": {"kind": "json"}}), "error_changed"),
                          ([SCORES[0], SCORES[1], {"id": "c", "logits": [1], "act": [1, 2]}, SCORES[3]], "error_went"),
                          ([{"id": "a", "line": 1, "error": {"kind": "device"}}] + SCORES[1:], "error_came")):
            with self.subTest(word):
                document = self.document(SCORES, new, "--logit-tol", "9", status=1)
                self.assertEqual({k: v for k, v in document["failed"].items() if v}, {word: 1})
                self.assertEqual(document["failures"][0]["failure"], word)
                self.assertFalse(document["passed"])

    def test_quiet_prints_nothing(self):
        self.assertEqual(self.compare(SCORES, SCORES, "-q", status=0), "")
        self.assertEqual(self.compare(SCORES, changed(a={"act": [0, 0]}), "-q", status=1), "")

    def test_the_demo_against_itself(self):
        self.assertEqual(kime("compare", "-q", *[os.path.join(DEMO, "expected.jsonl")] * 2).returncode, 0)


class Documents(Compares):
    def test_everything_is_in_it(self):
        new = changed(b={"logits": [2, 2.5], "probs": [0.4, 0.6]}, a=None)
        document = self.document(SCORES, new, "--logit-tol", "0.1", status=1)
        self.assertEqual(document["old"]["records"], 4)
        self.assertEqual(document["new"]["errors"], 1)
        self.assertEqual(document["tolerance"], {"logit": 0.1, "prob": None, "act": None, "rel": None})
        self.assertEqual((document["matched"], document["compared"], document["same_bits"]), (3, 2, 1))
        self.assertEqual(document["fields"]["logits"]["largest_distance"], 0.5)
        self.assertEqual(document["fields"]["logits"]["mean_distance"], 0.5)
        self.assertEqual(document["fields"]["act"]["same_bits"], 4)
        self.assertEqual(document["only_in_new"], ["probs"])
        self.assertEqual(document["flips"]["count"], 1)
        self.assertEqual(document["flips"]["shown"][0], {
            "id": "b", "old_line": 2, "new_line": 1, "kind": "best option", "old": 0, "new": 1, "old_margin": 0.5, "new_margin": 0.5,
            "margin_unit": "logit"})
        self.assertEqual(document["worst"][0]["id"], "b")

    def test_ids_of_every_kind(self):
        ids = [None, True, 1e300, [1, "x"], {"a": {}}, "ü<&>\"'\u2028", "y" * 500]
        old = [{"id": i, "act": [1, 2]} for i in ids]
        new = [{"id": i, "act": [1, 3]} for i in ids]
        shown = [one["id"] for one in self.document(old, new, status=1)["worst"]]
        self.assertEqual(shown[:6], ids[:6])
        self.assertTrue(shown[6].endswith("yyy..."))

    def test_a_thousand_failures_are_counted_and_some_shown(self):
        old = [{"id": i, "logits": [i, 0]} for i in range(3000)]
        new = [{"id": i, "logits": [i + 1, 0]} for i in range(3000)]
        document = self.document(old, new, status=1)
        self.assertEqual(document["failed"]["distance"], 3000)
        self.assertEqual(len(document["failures"]), 100)
        self.assertEqual(len(document["worst"]), 10)
        self.assertIn("and 2,990 more", self.compare(old, new, status=1))


class JUnit(Compares):
    """Held against the schema of Jenkins's xUnit plugin, which lies beside this file."""

    def report(self, old, new, *args, status):
        path = self.path("junit.xml")
        self.compare(old, new, "--junit", path, *args, status=status)
        if shutil.which("xmllint"):
            schema = os.path.join(os.path.dirname(os.path.abspath(__file__)), "junit-10.xsd")
            checked = subprocess.run(["xmllint", "--noout", "--schema", schema, path], capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr.decode())
        suite = ElementTree.parse(path).getroot().find("testsuite")
        cases = suite.findall("testcase")
        self.assertEqual(int(suite.get("tests")), len(cases))
        self.assertEqual(int(suite.get("failures")), sum(case.find("failure") is not None for case in cases))
        return cases

    def test_what_passed_is_one_case(self):
        cases = self.report(SCORES, SCORES, status=0)
        self.assertEqual([case.get("name") for case in cases], ["summary"])
        self.assertIn("within tolerance", cases[0].find("system-out").text)

    def test_a_case_for_each_record_that_failed(self):
        cases = self.report(SCORES, changed(a={"act": [9, 9]}, b=None), status=1)
        self.assertEqual([(case.get("name"), case.get("classname")) for case in cases], [
            ("summary", "kime.compare"), ('"a"', "kime.compare.distance"), ('"b"', "kime.compare.only_old")])
        self.assertEqual(cases[1].find("failure").get("message"), "act[0]: 0.1 against 9, 8.9 apart")
        self.assertEqual(cases[2].find("failure").text, "line 2 of the old file")

    def test_many_are_capped_by_kind(self):
        old = [{"id": i, "act": [1, 2]} for i in range(400)]
        cases = self.report(old, [{"id": i, "act": [1, 3]} for i in range(300)], status=1)
        self.assertEqual(len(cases), 201)
        self.assertIn("400 records failed", cases[0].find("failure").get("message"))

    def test_hostile_text(self):
        old = [{"id": "]]><x>&\u0001\uffff'\"", "logits": [1], "act": [1, 2]}]
        new = [{"id": old[0]["id"], "line": 1, "error": {"kind": "<&>", "message": "]]>\u0000"}}, {"id": 2, "logits": [1]}]
        raw = self.path("old.jsonl"), self.path("<new>&.jsonl", "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in new).encode())
        with open(raw[0], "w", encoding="utf-8") as out:
            out.write("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in old))
        path = self.path("junit.xml")
        self.assertEqual(kime("compare", *raw, "--junit", path).returncode, 1)
        self.assertIn("]]><x>&", ElementTree.parse(path).getroot().find("testsuite").findall("testcase")[1].get("name"))


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.links = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src") or name.startswith("on")]


class Pages(Compares):
    def page(self, old, new, *args, status):
        path = self.path("page.html")
        self.compare(old, new, "--html", path, *args, status=status)
        return read(path).decode()

    def test_it_needs_nothing_else(self):
        text = self.page(SCORES, changed(b={"logits": [2, 2.5]}), status=1)
        tags = Tags(text)
        self.assertEqual(tags.links, [])
        self.assertEqual(re.findall(r"(?:https?:)?//\w|url\(|@import", text), [])
        self.assertIn("default-src 'none'", text)
        self.assertEqual(tags.tags.count("svg"), 3)  # two scatters, one histogram
        for part in ("differences", "Flips of answers", "best option", "prefers-color-scheme: dark", "logits[0]"):
            self.assertIn(part, text)

    def test_what_files_say_is_text(self):
        evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
        old = [{"id": evil, "logits": [1, 0], "act": [1, 2]}, {"id": 2, "logits": [1]}]
        new = [{"id": evil, "logits": [0, 1], "act": [1, 2]}, {"id": 2, "line": 2, "error": {"kind": evil}}]
        tags = Tags(self.page(old, new, status=1))
        self.assertEqual(tags.tags.count("script"), 1)  # its own
        self.assertNotIn("img", tags.tags)
        self.assertEqual(tags.links, [])

    def test_nothing_apart(self):
        text = self.page(SCORES, SCORES, status=0)
        self.assertIn("No answer is another one.", text)
        self.assertIn("No two numbers lie apart.", text)


class Files(Compares):
    def test_an_output_that_is_an_input(self):
        old, new = self.files(SCORES, SCORES)
        os.symlink(old, self.path("link"))
        for path in (old, new, self.path("link")):
            for option in ("--html", "--junit"):
                ran = kime("compare", old, new, option, path)
                self.assertEqual((ran.returncode, ran.stderr.decode()), (2, f"kime: {path}: is also an input\n"))
        self.assertEqual(read(old), jsonl(*SCORES))

    def test_no_space_or_no_folder(self):
        old, new = self.files(SCORES, SCORES)
        ran = kime("compare", old, new, "--html", "/dev/full")
        self.assertEqual((ran.returncode, ran.stderr), (3, b"kime: /dev/full: No space left on device\n"))
        ran = kime("compare", old, new, "--junit", self.path("no/such"))
        self.assertEqual(ran.returncode, 2)
        self.assertEqual(ran.stdout, b"")

    def test_nothing_is_left_of_a_comparison_that_fails(self):
        old, new = self.files(SCORES, [])
        page = self.path("page", b"before")
        self.assertEqual(kime("compare", old, new, "--html", page, "--junit", self.path("junit")).returncode, 2)
        self.assertEqual(read(page), b"before")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["new.jsonl", "old.jsonl", "page"])


class Unusable(Compares):
    def refuse(self, old, new, message, status=2):
        ran = kime("compare", old, new)
        self.assertEqual(ran.returncode, status, ran.stderr)
        self.assertEqual(ran.stdout, b"")
        self.assertEqual(ran.stderr.decode(), f"kime: {message}\n")

    def test_lines_that_are_no_scores(self):
        good = self.path("good", jsonl(*SCORES))
        for line, why in ((b'{"id":1,"logits":[NaN]}', '"logits": expected a value at byte 19'),
                          (b'{"id":1,"logits":[1,null]}', '"logits" has null where a number belongs'),
                          (b'{"logits":[1]}', 'there is no field "id"'),
                          (b'garbage', "expected '{' at byte 1"),
                          (b'{"id":1,"act":[1,2]', "expected ',' or '}' at byte 20")):
            bad = self.path("bad", jsonl(*SCORES) + b"\n" + line)
            self.refuse(good, bad, f"{bad}: line 6: {why}")
            self.refuse(bad, good, f"{bad}: line 6: {why}")

    def test_ids_that_come_twice(self):
        old, new = self.files(SCORES, SCORES + [{"id": "b", "act": [1, 2]}])
        self.refuse(old, new, f'{new}: lines 2 and 5 have the same id "b": records are matched by it')

    def test_nothing_to_compare(self):
        old, new = self.files([{"id": 1, "logits": [1]}], [{"id": 1, "choice": 0, "confidence": 1}])
        self.refuse(old, new, f"no field to compare is in both files: {old} has logits, {new} has choice, confidence")
        self.refuse(old, os.devnull, f"no field to compare is in both files: {old} has logits, {os.devnull} has no scores")

    def test_files_that_cannot_be_read(self):
        old = self.path("old", jsonl(*SCORES))
        gone = self.path("gone")
        self.refuse(old, gone, f"{gone}: No such file or directory")
        self.refuse(self.folder.name, old, f"{self.folder.name}: Is a directory")
        self.refuse("-", "-", "only one of the two files can be standard input")
        torn = self.path("torn", subprocess.run(["gzip", "-c", old], stdout=subprocess.PIPE, check=True).stdout[:-9])
        ran = kime("compare", old, torn)
        self.assertEqual(ran.returncode, 3)
        self.assertIn(b"truncated", ran.stderr)

    def test_options_that_are_wrong(self):
        old = self.path("old", jsonl(*SCORES))
        for args in ((old,), (old, old, old), (old, old, "--logit-tol", "-1"), (old, old, "--rel-tol", "x"), (old, old, "--act-tol", "nan")):
            self.assertEqual(kime("compare", *args).returncode, 2, args)

    def test_no_room_for_what_waits(self):
        records = [{"id": f"{i:0100d}", "logits": [i], "act": [0, 0]} for i in range(20000)]
        old, new = self.files(records, list(reversed(records)))
        self.assertEqual(kime("compare", "-q", old, new, env={"TMPDIR": self.folder.name}).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["new.jsonl", "old.jsonl"])
        ran = kime("compare", old, new, env={"TMPDIR": self.path("gone")})
        self.assertEqual(ran.returncode, 3)
        self.assertIn(b"TMPDIR names another folder", ran.stderr)

    def test_a_full_standard_output(self):
        old, new = self.files(SCORES, SCORES)
        with open("/dev/full", "wb") as full:
            ran = subprocess.run([KIME, "compare", old, new], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (3, b"kime: standard output: No space left on device\n"))


class Streams(Compares):
    def test_pipes_and_packed_files(self):
        scores = jsonl(*[{"id": i, "logits": [i / 7, -i]} for i in range(5000)])
        old = self.path("old", scores)
        packed = self.path("new.gz", subprocess.run(["gzip", "-c", old], stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(kime("compare", old, packed, "-q").returncode, 0)
        self.assertEqual(kime("compare", "-", packed, "-q", stdin=scores).returncode, 0)
        self.assertEqual(kime("compare", old, "-", "-q", stdin=scores[:-40]).returncode, 2)  # a torn last line

    def test_a_file_that_cannot_be_used_ends_it_although_the_other_one_waits(self):
        process = subprocess.Popen([KIME, "compare", self.path("bad", b"no"), "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            self.assertEqual(process.wait(60), 2)  # before standard input ends
            self.assertIn(b"line 1: expected '{'", process.stderr.read())

    def test_a_signal_ends_it(self):
        old = self.path("old", jsonl(*SCORES))
        process = subprocess.Popen([KIME, "compare", old, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            process.stdin.write(jsonl(SCORES[0]))
            process.stdin.flush()
            while f"{process.pid} (kime) S" not in read("/proc", str(process.pid), "stat").decode():  # until it waits
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
            self.assertEqual(process.stdout.read() + process.stderr.read(), b"")

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is its own")
    def test_memory_does_not_grow_with_files_in_order(self):
        def write(name, numbers):  # a line at a time: a child's peak begins with this process's own memory
            path = self.path(name)
            with open(path, "w", encoding="ascii") as out:
                for i in numbers:
                    out.write(f'{{"id":"ticket-{i:09d}","logits":[{",".join(str(i / (7 + k)) for k in range(8))}]}}\n')
            return path

        def peak(count, turned):
            process = subprocess.Popen([KIME, "compare", "-q", write("old", range(count)),
                                        write("new", reversed(range(count)) if turned else range(count))])
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return usage.ru_maxrss * 1024
        small = peak(10_000, False)
        self.assertLess(peak(80_000, False), small + (2 << 20))
        ids = 80_000 * len('"ticket-000000000"')
        self.assertLess(peak(80_000, True), small + (2 << 20) + 4 * ids)


if __name__ == "__main__":
    unittest.main()
