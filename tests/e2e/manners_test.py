"""kime in a shell: pipes that close, disks that are full, signals, input that trickles, options that are wrong."""
import os
import select
import signal
import subprocess
import time
import unittest

from support import DEMO, KIME, Case, jsonl, kime, lines, read, record

RECORDS = os.path.join(DEMO, "records.jsonl")


def wait_for_line(stream, seconds):
    """One line of an unbuffered pipe, or what came until the time was over."""
    data, end = b"", time.monotonic() + seconds
    while not data.endswith(b"\n") and time.monotonic() < end:
        if select.select([stream], [], [], 0.1)[0]:
            more = os.read(stream.fileno(), 1)
            if not more:
                break
            data += more
    return data


class Pipes(Case):
    def start(self, *args, **more):
        process = subprocess.Popen([KIME, "score", "-m", DEMO, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=0, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for stream in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(stream.close)
        return process

    def test_what_is_there_is_answered_at_once(self):
        process = self.start()
        for i in range(3):
            process.stdin.write(jsonl(record(id=i)))
            self.assertIn(f'"id":{i}'.encode(), wait_for_line(process.stdout, 60))
        process.stdin.write(jsonl(record(id=7))[:-1])  # half a line does not hold back anything, and counts at the end
        process.stdin.close()
        self.assertIn(b'"id":7', wait_for_line(process.stdout, 60))
        self.assertEqual(process.wait(60), 0)

    def test_a_pipe_closed_downstream_ends_it_quietly(self):
        with open(RECORDS, "rb") as source:
            process = subprocess.Popen([KIME, "score", "-m", DEMO, *[RECORDS] * 20], stdin=source, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
        with process:
            self.assertTrue(process.stdout.readline().startswith(b'{"id":"ticket-0000"'))
            process.stdout.close()
            self.assertEqual(process.wait(120), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")

    def test_where_sigpipe_is_ignored_too(self):
        with open(RECORDS, "rb") as source:
            process = subprocess.Popen([KIME, "score", "-m", DEMO, *[RECORDS] * 20], stdin=source, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, restore_signals=False)
        with process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.wait(120), 3)
            self.assertEqual(process.stderr.read(), b"")

    def test_a_full_disk_is_a_job_lost(self):
        with open("/dev/full", "wb") as full:
            ran = subprocess.run([KIME, "score", "-m", DEMO, RECORDS], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(ran.returncode, 3)
        self.assertEqual(ran.stderr, b"kime: standard output: No space left on device\n")

    def test_signals_finish_what_is_in_flight(self):
        for sent, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(sent):
                process = self.start()
                process.stdin.write(jsonl(record(id="before")))
                self.assertIn(b'"before"', wait_for_line(process.stdout, 60))
                process.send_signal(sent)  # it waits in a read
                self.assertEqual(process.wait(60), status)

    def test_a_signal_in_the_middle_leaves_whole_lines_in_order(self):
        whole = lines(kime("score", "-m", DEMO, RECORDS).stdout)
        process = self.start(*[RECORDS] * 50)
        first = wait_for_line(process.stdout, 60)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        self.assertEqual(process.wait(60), 130)
        out = lines(first + rest)
        self.assertLess(len(out), 50 * len(whole))
        for i, line in enumerate(out):
            self.assertEqual(line["id"], whole[i % len(whole)]["id"])

    def test_a_blocked_output_stops_the_reader(self):
        process = self.start()
        os.set_blocking(process.stdin.fileno(), False)
        data, sent, idle = jsonl(record(id="x", n=40)) * 2000, 0, time.monotonic()
        while time.monotonic() - idle < 5:  # nobody reads the output: the writes must stall before long
            try:
                sent += os.write(process.stdin.fileno(), data)
                idle = time.monotonic()
            except BlockingIOError:
                select.select([], [process.stdin], [], 1)
            self.assertLess(sent, 64 << 20)
        process.kill()


class Usage(Case):
    def refused(self, *args, words=(), status=2, **more):
        ran = kime(*args, **more)
        self.assertEqual(ran.returncode, status, ran)
        self.assertEqual(ran.stdout, b"")
        for word in words:
            self.assertIn(word, ran.stderr.decode())

    def test_wrong_usage_says_what_to_do(self):
        self.refused(words=["kime"])
        self.refused("sing", words=["sing"])
        self.refused("score", "--sing", "-m", DEMO, words=["--sing"])
        self.refused("score", words=["-m", "KIME_MODEL"], env={"KIME_MODEL": ""})
        self.refused("score", "-m", DEMO, "--emit", "rubbish", words=["rubbish", "logits"])
        self.refused("score", "-m", DEMO, "--precision", "f16", words=["f16"])
        self.refused("score", "-m", DEMO, "--threads", "0", words=["threads"])
        self.refused("score", "-m", DEMO, "--stage", "moon", words=["moon", "compat"])
        self.refused("score", "-m", DEMO, "--buckets", "/missing", words=["/missing"])
        self.refused("score", "-m", self.path("nowhere"), words=["nowhere"])
        self.refused("model", self.path("nowhere"), words=["nowhere"])
        self.refused("score", "-m", DEMO, self.path("nothing.jsonl"), words=["nothing.jsonl"])

    def test_an_instruction_set_that_is_not_there(self):
        self.refused("score", "-m", DEMO, words=["mmx", "scalar"], env={"KIME_CPU_TARGET": "mmx"})

    def test_a_bad_bucket_table_names_its_line(self):
        table = self.path("table", b"# mine\ncompat 32 8 32\ncompat 16 8 16\n")
        self.refused("score", "-m", DEMO, "--buckets", table, words=["table:3"])

    def test_help_and_version(self):
        for args in (["--help"], *([name, "--help"] for name in ("score", "check", "model", "buckets", "bench"))):
            ran = kime(*args)
            self.assertEqual((ran.returncode, ran.stderr), (0, b""))
            self.assertIn(b"kime", ran.stdout)
        ran = kime("--version")
        self.assertRegex(ran.stdout.decode(), r"^kime \d+\.\d+\.\d+ \(arithmetic \d+\)\n$")

    def test_the_environment_names_a_model(self):
        ran = kime("score", env={"KIME_MODEL": DEMO}, stdin=jsonl(record(id=1)))
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_quiet_is_quiet(self):
        self.assertEqual(kime("score", "-q", "-m", DEMO, stdin=jsonl(record()) + b"x\n").stderr, b"")
        self.assertIn(b"1 record failed", kime("score", "-m", DEMO, stdin=jsonl(record()) + b"x\n").stderr)


class Commands(Case):
    def test_model(self):
        ran = kime("model", DEMO)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for word in ("128", "1,024", "F16"):
            self.assertIn(word, ran.stdout.decode())
        self.assertEqual(lines(kime("model", DEMO, "--json").stdout.replace(b"\n", b"") + b"\n")[0]["hidden"], 128)

    def test_buckets(self):
        ran = kime("buckets", "-m", DEMO, RECORDS)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("400", ran.stdout.decode())
        self.assertEqual(lines(kime("buckets", "-m", DEMO, "--json", RECORDS).stdout.replace(b"\n", b"") + b"\n")[0]["records"], 400)

    def test_bench(self):
        ran = kime("bench", "-m", DEMO, "--seconds", "1", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        told = lines(ran.stdout.replace(b"\n", b"") + b"\n")[0]
        self.assertGreater(told["peak_gflops"], 0)
        self.assertGreater(told["tokens_per_second"], 0)
        self.assertGreater(told["share_of_peak"], 0)
        self.assertGreater(told["memory_gb_per_second"], 0)
        self.assertAlmostEqual(sum(op["share_of_time"] for op in told["ops"]), 1)
        self.assertNotIn("sweep", told)

    def test_bench_sweep(self):
        command = ("bench", "-m", DEMO, "--seconds", "2", "--sweep")
        ran = kime(*command, "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        swept = lines(ran.stdout.replace(b"\n", b"") + b"\n")[0]["sweep"]
        self.assertEqual([point["tokens"] for point in swept["single_records"]], [16, 64, 256])
        self.assertEqual([point["tokens"] for point in swept["lengths"]], [64, 128, 256, 512, 1024, 2048])
        self.assertEqual([point["records"] for point in swept["batches"]], [1, 4, 16, 64])
        ran = kime(*command)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertLessEqual(max(map(len, ran.stdout.decode().splitlines())), 100)

    def test_bench_without_scores(self):
        records = self.path("records.jsonl", read(DEMO, "records.jsonl") + b"no JSON\n")
        command = ("bench", "--null", "--records", records, "--seconds", "0.1", "--threads", "2")
        ran = kime(*command, "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        told = lines(ran.stdout.replace(b"\n", b"") + b"\n")[0]
        self.assertEqual((told["lanes"], told["records"], told["bytes"]), (2, 401 * told["failed"], os.path.getsize(records) * told["failed"]))
        self.assertGreaterEqual(told["seconds"], 0.1)
        self.assertIn("  a thread ", kime(*command).stdout.decode())
        for args, why in (((), "--null: name a file of records with --records"), (("--records", "no-such.jsonl"), "no-such.jsonl: No such file"),
                          (("--records", "/dev/null"), "/dev/null: is no regular file and cannot be read twice"), (("--records", records, "--sweep"), "--sweep")):
            ran = kime("bench", "--null", *args)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(why, ran.stderr.decode())


if __name__ == "__main__":
    unittest.main()
