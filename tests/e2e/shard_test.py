"""kime score --shard: the outputs of all shards, one after another, are the whole job's."""
import gzip
import os
import unittest

from support import DEMO, Case, jsonl, kime, lines, read

RECORDS = os.path.join(DEMO, "records.jsonl")


class Shards(Case):
    def setUp(self):
        super().setUp()
        demo = read(RECORDS).splitlines(keepends=True)
        some = [{key: value for key, value in each.items() if key != "id"} for each in lines(b"".join(demo[:40]))]
        # Lines that count though they give none, and that are told by their numbers.
        text = b"\n \r\n" + jsonl(*some[:20]) + b"x\n\n" + jsonl(*some[20:]) + b"\n"
        self.plain = self.path("a.jsonl", text)
        self.other = self.path("b.jsonl", b"".join(demo[40:60])[:-1])
        self.empty = self.path("empty.jsonl", b"")
        self.packed = self.path("c.jsonl.gz", gzip.compress(text + b"y"))
        self.tiny = self.path("tiny.jsonl", demo[0])

    def run_kime(self, command, inputs, *args, status=(0, 1)):
        ran = kime(command, "-q", "-m", DEMO, *inputs, *args)
        self.assertIn(ran.returncode, status, ran.stderr.decode())
        return ran.stdout

    def test_shards_one_after_another_are_the_whole(self):
        for inputs in ([self.plain], [self.packed], [self.plain, self.empty, self.other, self.packed, self.tiny]):
            for command, counts in (("score", (1, 2, 5)), ("check", (2, 3, 7))):
                whole = self.run_kime(command, inputs)
                for count in counts:
                    with self.subTest((command, inputs, count)):
                        shards = [self.run_kime(command, inputs, "--shard", f"{index}/{count}") for index in range(1, count + 1)]
                        self.assertEqual(b"".join(shards), whole)
                        if command == "score" and inputs == [self.plain]:
                            self.assertLess(max(map(len, shards)), len(whole) / count * 2)

    def test_more_shards_than_lines_leave_some_empty(self):
        shards = [self.run_kime("score", [self.tiny], "--shard", f"{index}/3") for index in (1, 2, 3)]
        self.assertEqual(shards, [self.run_kime("score", [self.tiny]), b"", b""])

    def test_each_shard_to_its_own_output(self):
        whole = self.run_kime("score", [self.plain, self.packed])
        for index in (1, 2):
            self.run_kime("score", [self.plain, self.packed], "--shard", f"{index}/2", "-o", self.path(f"out-{index}"), "--resume")
        self.assertEqual(read(self.path("out-1")) + read(self.path("out-2")), whole)

    def test_what_is_no_shard(self):
        for command in ("score", "check"):
            for shard, word in (("0/2", "shards of 2 are 1/2 to 2/2"), ("3/2", "shards of 2"), ("1/0", "there are 1 to"), ("half", "is no shard"), ("", "is no shard")):
                ran = kime(command, "-m", DEMO, self.plain, "--shard", shard)
                self.assertEqual((ran.returncode, ran.stdout), (2, b""))
                self.assertIn(f"--shard '{shard}'", ran.stderr.decode())
                self.assertIn(word, ran.stderr.decode())

    def test_a_pipe_has_no_shards(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        keep = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, keep)
        for command in ("score", "check"):
            for name, told in (("-", "standard input"), (pipe, pipe)):
                ran = kime(command, "-m", DEMO, self.plain, name, "--shard", "1/2", stdin=b"{}\n")
                self.assertEqual((ran.returncode, ran.stdout), (2, b""))
                self.assertIn(f"--shard: {told}: is no regular file and cannot be read twice", ran.stderr.decode())

    def test_a_packed_input_that_breaks_off_is_told_at_the_start(self):
        bad = self.path("bad.gz", read(self.packed)[:-9])
        ran = kime("score", "-m", DEMO, bad, "--shard", "1/2")
        self.assertEqual((ran.returncode, ran.stdout), (2, b""))
        self.assertIn("truncated", ran.stderr.decode())


if __name__ == "__main__":
    unittest.main()
