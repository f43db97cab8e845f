"""kime score --progress: a line on a terminal that is gone at the end, documents for programs, and nothing in a log."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from support import DEMO, KIME, Case, kime, read

TAKE_AWAY = b"\r\x1b[K"


class Progress(Case):
    def setUp(self):
        super().setUp()
        lines = read(DEMO, "records.jsonl").splitlines(keepends=True)
        self.records = self.path("records.jsonl", b"".join(lines * 2) + b"no JSON\n")
        self.few = self.path("few.jsonl", b"".join(lines[:5]))

    def command(self, *args):
        return [KIME, "score", self.records, "-m", DEMO, "--threads", "1", *args]

    def terminal(self, *args, columns=200, **env):
        """What a terminal of so many columns gets on standard error, and how long it took."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        begin = time.monotonic()
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        with subprocess.Popen(self.command(*args), stdout=subprocess.DEVNULL, stderr=theirs, env={**plain, "TERM": "xterm", **env}) as process:
            os.close(theirs)
            told = b""
            while True:
                select.select([ours], [], [])
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not more:
                    break
                told += more
        os.close(ours)
        self.assertEqual(process.returncode, 1)  # one line is no JSON
        return told, time.monotonic() - begin

    def test_a_line_that_is_drawn_anew_and_gone_at_the_end(self):
        told, seconds = self.terminal()
        drawn = told.split(TAKE_AWAY)
        self.assertGreaterEqual(len(drawn), 4)
        self.assertLessEqual(len(drawn), 10 * seconds + 3)
        *lines, summary = drawn[1:]
        self.assertRegex(summary, rb"^kime: 800 records scored in [^\r\n]*\r\nkime: 1 record failed; [^\r\n]*\r\n$")
        pattern = rb"^ *\d+ %  \x1b\[32m\[#*-*\]\x1b\[0m  [\d,]+ of (about )?[\d,]+ records  [\d,]+ records/s  [\d,]+ tokens/s(  [\d:]+ left)?(  \x1b\[31m1 error\x1b\[0m)?  (cpu:0|no device) at work$"
        for line in lines:
            self.assertRegex(line, pattern)
        done = [int(re.search(rb"([\d,]+) of", line).group(1).replace(b",", b"")) for line in lines]
        self.assertEqual(done, sorted(done))
        whole = [int(re.search(rb"of (?:about )?([\d,]+)", line).group(1).replace(b",", b"")) for line in lines if int(line.split()[0]) > 5]
        for estimate in whole:
            self.assertAlmostEqual(estimate, 801, delta=80)

    def test_it_fits_the_terminal(self):
        told, _ = self.terminal(columns=40)
        for line in told.split(TAKE_AWAY)[1:-1]:
            self.assertLess(len(re.sub(rb"\x1b\[\d+m", b"", line)), 40)

    def test_colours_follow_the_environment(self):
        told, _ = self.terminal(NO_COLOR="1")
        self.assertNotIn(b"\x1b", told.replace(TAKE_AWAY, b""))
        self.assertIn(b" records/s", told)

    def test_where_there_is_no_line(self):
        for args, env in (((), {"TERM": "dumb"}), (("-q",), {}), (("--progress", "never"), {})):
            with self.subTest(args=args, env=env):
                self.assertNotIn(b"\x1b", self.terminal(*args, **env)[0])

    def test_nothing_in_a_log(self):
        ran = subprocess.run(self.command(), capture_output=True, check=False)
        self.assertEqual(ran.stderr.count(b"\n"), 2)
        self.assertNotIn(b"\x1b", ran.stderr)

    def test_always(self):
        ran = subprocess.run(self.command("--progress", "always", "-q"), capture_output=True, check=False)
        self.assertIn(b" records/s", ran.stderr)
        self.assertTrue(ran.stderr.endswith(TAKE_AWAY))
        self.assertNotIn(b"\x1b[3", ran.stderr)  # colours are for terminals

    def test_documents(self):
        ran = subprocess.run(self.command("--progress", "json", "-q"), capture_output=True, check=False)
        documents = [json.loads(line) for line in ran.stderr.splitlines()]
        self.assertEqual([document["ended"] for document in documents], [False] * (len(documents) - 1) + [True])
        last = documents[-1]
        self.assertEqual((last["records"], last["errors"], last["records_in_all"], last["records_in_all_exact"]), (801, 1, 801, True))
        self.assertEqual((last["seconds_left"], last["at_work"]), (0, []))
        seconds = [document["seconds"] for document in documents]
        for before, after in zip(seconds, seconds[1:-1]):
            self.assertGreater(after - before, 0.9)

    def test_a_pipe_has_no_known_end(self):
        ran = kime("score", "-q", "-m", DEMO, "--progress", "json", stdin=read(self.few))
        last = json.loads(ran.stderr.splitlines()[-1])
        self.assertEqual((last["records"], last["records_in_all"]), (5, 5))  # it has ended
        self.assertTrue(last["records_in_all_exact"])

    def test_a_resumed_job_counts_what_was_done(self):
        out = self.path("scores.jsonl")
        with subprocess.Popen(self.command("-o", out, "-q"), stdin=subprocess.DEVNULL) as process:
            while not os.path.exists(out + ".partial") or os.path.getsize(out + ".partial") < 10000:
                self.assertIsNone(process.poll())
            process.terminate()
        ran = subprocess.run(self.command("-o", out, "-q", "--resume", "--progress", "json"), capture_output=True, check=False)
        last = json.loads(ran.stderr.splitlines()[-1])
        self.assertEqual((last["records"], last["records_in_all"]), (801, 801))

    def test_no_such_form(self):
        ran = kime("score", self.few, "-m", DEMO, "--progress", "often")
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b"--progress", ran.stderr)


if __name__ == "__main__":
    unittest.main()
