"""Each kind of bad record gives its line, with the right kind and a message that says what is wrong, and every other record its score."""
import gzip
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from support import DEMO, KIME, Case, jsonl, kime, lines, record

GOOD = jsonl(record(id="good"))

# name: (line, kind, words of the message, id as it is echoed)
BAD = {
    "not json": (b"hello", "json", ["hello"], None),
    "truncated": (b'{"id":"x","ids":[1,2', "json", [], None),
    "an array": (b"[1,2]", "json", ["object"], 2),
    "ids a string": (b'{"id":"x","ids":"1 2","markers":[],"qtype":0}', "json", ["ids", "1 2"], "x"),
    "ids missing": (b'{"id":"x","markers":[],"qtype":0}', "json", ["ids"], "x"),
    "markers missing": (b'{"id":"x","ids":[1],"qtype":0}', "json", ["markers"], "x"),
    "qtype missing": (b'{"id":"x","ids":[1],"markers":[]}', "json", ["qtype"], "x"),
    "ids empty": (b'{"id":"x","ids":[],"markers":[],"qtype":0}', "batch", ["ids"], "x"),
    "id token negative": (b'{"id":"x","ids":[-1],"markers":[],"qtype":0}', "json", ["ids", "-1"], "x"),
    "minus zero": (b'{"id":"x","ids":[-0],"markers":[],"qtype":0}', "json", ["ids", "-0"], "x"),
    "2^32": (b'{"id":"x","ids":[4294967296],"markers":[],"qtype":0}', "json", ["ids", "4294967296"], "x"),
    "1e3": (b'{"id":"x","ids":[1e3],"markers":[],"qtype":0}', "json", ["ids", "1e3"], "x"),
    "1.0": (b'{"id":"x","ids":[1.0],"markers":[],"qtype":0}', "json", ["ids", "1.0"], "x"),
    "1.5": (b'{"id":"x","ids":[1,1.5],"markers":[],"qtype":0}', "json", ["ids", "1.5"], "x"),
    "nested ids": (b'{"id":"x","ids":[[1]],"markers":[],"qtype":0}', "json", ["ids"], "x"),
    "marker past the end": (b'{"id":"x","ids":[1,2,3,4,5,6,7],"markers":[9],"qtype":0}', "batch",
                            ["marker 9 is past sequence 0 of 7 tokens"], "x"),
    "token past the vocabulary": (b'{"id":"x","ids":[70000],"markers":[],"qtype":0}', "batch",
                                  ["token id 70000 is past the vocabulary of 1024"], "x"),
    "unknown qtype": (b'{"id":"x","ids":[1],"markers":[],"qtype":"maybe"}', "json", ["qtype", "maybe"], "x"),
    "qtype 7": (b'{"id":"x","ids":[1],"markers":[],"qtype":7}', "batch", ["sequence 0 has type 7 of 3"], "x"),
    "duplicate ids": (b'{"id":"x","ids":[1],"markers":[],"qtype":0,"ids":[2]}', "json", ["ids"], "x"),
    "duplicate by escape": (b'{"id":"x","ids":[1],"markers":[],"qtype":0,"\\u0069ds":[2]}', "json", ["ids"], "x"),
    "deep": (b'{"id":"x","ids":[1],"markers":[],"qtype":0,"more":' + b"[" * 100000 + b"]" * 100000 + b"}", "json", ["1024"], "x"),
    "invalid utf-8": (b'{"id":"\xff","ids":[1],"markers":[],"qtype":0}', "json", [], None),
    "a NUL byte": (b'{"id":"x","ids":[1],"markers":[],"qtype":0}\0', "json", [], None),
    "two documents": (b'{"ids":[1],"markers":[],"qtype":0}{}', "json", [], None),
    "no bucket": (json.dumps(record(20000, id="x")).encode(), "no_bucket", ["no compat bucket holds 20000 tokens, 1 sequences and 2 markers"], "x"),
}


class BadRecords(Case):
    def test_each_gives_its_line_and_the_others_their_scores(self):
        alone = self.score(GOOD)[0]
        for name, (line, kind, words, said) in BAD.items():
            with self.subTest(name):
                out = self.score(GOOD + line + b"\n" + GOOD, status=1)
                self.assertEqual(out[0], alone)
                self.assertEqual(out[2], alone)
                self.assertEqual(out[1]["error"]["kind"], kind, out[1])
                self.assertEqual(out[1]["line"], 2)
                self.assertEqual(out[1]["id"], said)
                for word in words:
                    self.assertIn(word, out[1]["error"]["message"])

    def test_check_writes_the_same_error_lines_and_nothing_else(self):
        data = b"".join(GOOD + line + b"\n" for line, *_ in BAD.values())
        scored = kime("score", "-m", DEMO, stdin=data)
        checked = kime("check", "-m", DEMO, stdin=data)
        self.assertEqual(checked.returncode, 1)
        self.assertEqual(checked.stdout.splitlines(), [line for line in scored.stdout.splitlines() if b'"error"' in line])
        self.assertEqual(len(checked.stdout.splitlines()), len(BAD))

    def test_on_error_skip_leaves_the_line_out(self):
        out = self.score(GOOD + b"nonsense\n" + GOOD, "--on-error", "skip", status=1)
        self.assertEqual([line["id"] for line in out], ["good", "good"])

    def test_on_error_stop_ends_after_the_first(self):
        out = self.score(GOOD * 3 + b"nonsense\n" + GOOD * 50, "--on-error", "stop", status=1)
        self.assertEqual(len(out), 4)
        self.assertEqual(out[3]["line"], 4)

    def test_a_line_over_the_limit_is_one_records_error(self):
        long = b'{"id":"x","ids":[1],"markers":[],"qtype":0,"note":"' + b"y" * 5000 + b'"}\n'
        out = self.score(GOOD + long + GOOD, "--max-line", "1000", status=1)
        self.assertEqual(out[1]["error"]["kind"], "json")
        self.assertIn("1000 bytes", out[1]["error"]["message"])
        self.assertEqual([line["id"] for line in out], ["good", None, "good"])

    def test_a_line_of_100_mib(self):
        out = self.score(GOOD + b'{"note":"' + b"y" * (100 << 20) + b'"}\n' + GOOD, status=1)
        self.assertEqual([line["id"] for line in out], ["good", None, "good"])
        self.assertEqual(out[1]["error"]["kind"], "json")

    def test_an_error_in_place_of_ids_is_passed_on(self):
        out = self.score(jsonl({"id": "e", "error": {"kind": "encode", "message": "no text"}}) + GOOD, status=1)
        self.assertEqual(out[0]["id"], "e")
        self.assertEqual(out[0]["error"]["message"], "no text")


class Ids(Case):
    def test_any_json_value_is_echoed_byte_for_byte(self):
        for raw in (b'{"a": [1,  2]}', b'"caf\\u00e9 \\"q\\""', b"123456789012345678901234567890", b"null", b"-0", b"1e400", b"true", b'""', b"[ ]"):
            with self.subTest(raw):
                ran = kime("score", "-m", DEMO, stdin=b'{"ids":[1,2],"id" : ' + raw + b' ,"markers":[1],"qtype":1}\n')
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertTrue(ran.stdout.startswith(b'{"id":' + raw + b","), ran.stdout)

    def test_without_one_the_line_number_stands_in(self):
        out = self.score(b"\n  \n" + jsonl(record()) + b"\n" + jsonl(record()))
        self.assertEqual([line["id"] for line in out], [3, 5])

    def test_with_several_files_the_file_stands_beside_it(self):
        first, second = self.path('a "1"\n.jsonl', jsonl(record())), self.path("b.jsonl", jsonl(record(id="z")) + b"?\n")
        ran = kime("score", "-m", DEMO, first, second)
        out = lines(ran.stdout)
        self.assertEqual(ran.returncode, 1)
        self.assertEqual([(line["id"], line["file"]) for line in out], [(1, first), ("z", second), (None, second)])
        self.assertEqual(out[2]["line"], 2)

    def test_a_files_name_that_is_no_text(self):
        odd = os.fsdecode(os.fsencode(self.path("a.jsonl", jsonl(record()))) + b"\xff")
        os.rename(self.path("a.jsonl"), odd)
        out = lines(kime("score", "-q", "-m", DEMO, odd, self.path("b.jsonl", jsonl(record()))).stdout)
        self.assertEqual(out[0]["file"], self.path("a.jsonl\ufffd"))


class Keep(Case):
    def test_other_fields_pass_byte_for_byte(self):
        ran = kime("score", "-m", DEMO, "--keep", stdin=b'{"text":"a\\u0062","ids":[1,2],"n": {"x": 1.50},"id":"k","markers":[0],"qtype":"score"}\n')
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(ran.stdout.startswith(b'{"id":"k","text":"a\\u0062","n":{"x": 1.50},"logits":['), ran.stdout)

    def test_in_error_lines_too(self):
        out = self.score(b'{"text":"t","ids":[],"id":"k","markers":[0],"qtype":"score"}\n', "--keep", status=1)
        self.assertEqual(out[0]["text"], "t")

    def test_a_field_that_kime_writes_is_an_error(self):
        for name in ("logits", "act", "probs", "choice", "score", "noul", "confidence", "answer_confidence", "act_probability", "file", "line"):
            with self.subTest(name):
                out = self.score(jsonl(record(id="k", **{name: 1})), "--keep", status=1)
                self.assertEqual(out[0]["error"]["kind"], "json")
                self.assertIn(name, out[0]["error"]["message"])
                self.assertEqual(len(self.score(jsonl(record(id="k", **{name: 1})))), 1)


class Files(Case):
    def test_empty_and_blank(self):
        for data in (b"", b"\n", b"  \n\t\r\n"):
            ran = kime("score", "-m", DEMO, stdin=data)
            self.assertEqual((ran.returncode, ran.stdout), (0, b""))

    def test_line_ends_and_marks(self):
        plain = jsonl(record(id=1), record(id=2))
        want = kime("score", "-m", DEMO, stdin=plain).stdout
        for data in (plain.replace(b"\n", b"\r\n"), plain[:-1], b"\xef\xbb\xbf" + plain, gzip.compress(plain), gzip.compress(plain[:30]) + gzip.compress(plain[30:])):
            self.assertEqual(kime("score", "-m", DEMO, stdin=data).stdout, want)

    def test_a_truncated_gz_is_a_job_lost_on_the_way(self):
        data = jsonl(*[record(id=i, note=os.urandom(40).hex()) for i in range(3000)])
        path = self.path("cut.jsonl.gz", gzip.compress(data)[:-4000])
        ran = kime("score", "-m", DEMO, path)
        self.assertEqual(ran.returncode, 3)
        self.assertIn(b"cut.jsonl.gz", ran.stderr)
        self.assertIn(b"truncated", ran.stderr)
        out = lines(ran.stdout)
        self.assertGreater(len(out), 1000)
        self.assertEqual([line["id"] for line in out], list(range(len(out))))

    def test_inputs_that_cannot_be_opened_are_named_before_anything_starts(self):
        good = self.path("good.jsonl", GOOD)
        for bad in (self.folder.name, self.path("missing.jsonl")):
            ran = kime("score", "-m", DEMO, good, bad)
            self.assertEqual((ran.returncode, ran.stdout), (2, b""))
            self.assertIn(bad.encode(), ran.stderr)

    def test_an_unreadable_file(self):
        path = self.path("locked.jsonl", GOOD)
        os.chmod(path, 0)
        if os.geteuid() != 0:
            ran = kime("score", "-m", DEMO, path)
        else:  # root reads everything: open the file as somebody who may see the folder, but not the file
            os.chmod(self.folder.name, 0o755)
            with tempfile.TemporaryDirectory() as copies:  # the project's own folder may be root's alone
                os.chmod(copies, 0o755)
                shutil.copy(KIME, copies)
                shutil.copytree(DEMO, os.path.join(copies, "demo"))
                ran = subprocess.run([os.path.join(copies, "kime"), "score", "-m", os.path.join(copies, "demo"), path],
                                     capture_output=True, check=False, user=65534, group=65534, extra_groups=[])
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b"Permission denied", ran.stderr)
        self.assertIn(b"locked.jsonl", ran.stderr)


if __name__ == "__main__":
    unittest.main()
