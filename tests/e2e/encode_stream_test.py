"""scripts/kime-encode as a filter: its inputs, order, memory, and how it ends."""
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest

from encode_support import ENCODE, EncodeCase, encode, request, run, start
from support import DEMO, jsonl, lines


class Inputs(EncodeCase):
    @classmethod
    def setUpClass(cls):
        cls.data = jsonl(*(request(f"Number {i} is late.", id=i) for i in range(3000)))
        cls.wanted = encode(stdin=cls.data).stdout

    def test_all_in_order(self):
        self.assertEqual([each["id"] for each in lines(self.wanted)], [f"{i}/q" for i in range(3000)])

    def test_the_same_bytes_from_any_number_of_processes(self):
        for jobs in ("1", "3"):
            self.assertEqual(encode("-j", jobs, stdin=self.data).stdout, self.wanted)

    def test_line_ends(self):
        mark = b"\xef\xbb\xbf"
        self.assertEqual(encode(stdin=mark + self.data.replace(b"\n", b"\r\n \n\n")[:-1]).stdout, self.wanted)

    def test_compressed_ones(self):
        packed = gzip.compress(self.data[:60000]) + gzip.compress(self.data[60000:])
        self.assertEqual(encode(self.path("r.gz", packed)).stdout, self.wanted)
        self.assertEqual(encode("-", stdin=packed).stdout, self.wanted)
        broken = encode(self.path("broken.gz", packed[:-3000]))
        self.assertEqual(broken.returncode, 3)
        self.assertIn(b"broken.gz: its gzip data ends in the middle", broken.stderr)
        self.assertTrue(broken.stdout and self.wanted.startswith(broken.stdout))
        damaged = encode(self.path("damaged.gz", packed[:200] + bytes(200) + packed[400:]))
        self.assertEqual(damaged.returncode, 3)
        self.assertIn(b"damaged.gz: its gzip data is damaged", damaged.stderr)

    @unittest.skipUnless(shutil.which("zstd"), "there is no zstd program")
    def test_zstd(self):
        packed = subprocess.run(["zstd", "-qc"], input=self.data, capture_output=True, check=True).stdout
        self.assertEqual(encode(self.path("r.zst", packed)).stdout, self.wanted)
        self.assertEqual(encode(stdin=packed).stdout, self.wanted)
        broken = encode(self.path("broken.zst", packed[:-30]))
        self.assertEqual(broken.returncode, 3)
        self.assertIn(b"broken.zst: its zstd data is damaged or ends in the middle", broken.stderr)

    def test_zstd_without_the_program(self):
        ran = encode(self.path("r.zst", b"\x28\xb5\x2f\xfd more"), env={"PATH": ""})
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b"r.zst: it is compressed with zstd, and there is no zstd program", ran.stderr)

    def test_several_inputs(self):
        half = self.data.index(b"\n", len(self.data) // 2) + 1
        self.assertEqual(encode(self.path("one", self.data[:half]), "-", stdin=self.data[half:]).stdout, self.wanted)

    def test_no_input(self):
        self.assertEqual(encode().returncode, 0)
        self.assertEqual(encode().stdout, b"")


class Manners(EncodeCase):
    def test_an_answer_comes_at_once(self):
        with start(stdin=subprocess.PIPE) as process:
            for name in ("a", "b"):
                process.stdin.write(jsonl(request(id=name)))
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline())["id"], name + "/q")
            process.stdin.close()
            self.assertEqual((process.stdout.read(), process.wait(60)), (b"", 0))

    def test_a_closed_pipe_ends_it_quietly(self):
        source = self.path("many", jsonl(*(request(id=i) for i in range(20000))))
        with start(source) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.wait(60), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with start(stdin=subprocess.PIPE) as process:
                process.stdin.write(jsonl(request(id="a")))
                process.stdin.flush()
                first = process.stdout.readline()
                process.send_signal(number)
                self.assertEqual(process.wait(60), 128 + number)
                self.assertEqual((json.loads(first)["id"], process.stdout.read(), process.stderr.read()), ("a/q", b"", b""))

    def test_a_stop_ends_between_lines(self):
        source = self.path("many", jsonl(*(request(id=i) for i in range(60000))))
        with start(source) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            self.assertEqual(process.wait(60), 130)
        self.assertEqual([each["id"] for each in lines(rest)], [f"{i}/q" for i in range(1, rest.count(b"\n") + 1)])
        self.assertLess(rest.count(b"\n"), 59999)

    @staticmethod
    def children(process):
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as source:
            return [int(each) for each in source.read().split()]

    def test_a_process_that_dies_is_told_of(self):
        with start("-j", "1", stdin=subprocess.PIPE) as process:
            process.stdin.write(jsonl(request(id="a")))
            process.stdin.flush()
            process.stdout.readline()
            os.kill(self.children(process)[0], signal.SIGKILL)
            process.stdin.write(jsonl(request(id="b")))
            process.stdin.flush()
            self.assertEqual(process.wait(60), 3)
            self.assertEqual(process.stderr.read(), b"kime-encode: an encoding process was ended by signal 9\n")

    def test_no_process_stays_behind(self):
        with start("-j", "2", stdin=subprocess.PIPE) as process:
            process.stdin.write(jsonl(request(id="a")))
            process.stdin.flush()
            process.stdout.readline()
            process.kill()
            self.assertEqual(process.stdout.read(), b"")  # which ends when the last of them has gone

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            ran = subprocess.run([sys.executable, "-B", ENCODE, "-m", DEMO], input=jsonl(request()), stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (3, b"kime-encode: cannot write to standard output: No space left on device\n"))

    def test_memory_does_not_grow(self):
        def peak(text, count):
            with start("-j", "1", "-q", stdin=subprocess.PIPE) as process:
                drain = subprocess.Popen(["wc", "-l"], stdin=process.stdout, stdout=subprocess.PIPE)
                process.stdout.close()
                worker = None
                for i in range(count):
                    process.stdin.write(jsonl(request(text, id=i)))
                    worker = worker or self.children(process)
                most = 0
                for pid in (process.pid, *worker):
                    with open(f"/proc/{pid}/status", encoding="ascii") as source:
                        most += next(int(line.split()[1]) for line in source if line.startswith("VmHWM"))
                process.stdin.close()
                self.assertEqual(int(drain.communicate()[0]), count)
                return most

        few, many = peak("It is late. " * 100, 400), peak("It is late. " * 100, 4000)
        self.assertLess(many, few * 1.2)

    def test_a_long_text_costs_little(self):
        ran = encode("-j", "1", stdin=jsonl(request("The parcel is late. " * 500000)), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2))
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        self.assertEqual(len(lines(ran.stdout)[0]["ids"]), 512)

    def test_counts(self):
        ran = encode(stdin=jsonl(request(), 3))
        self.assertEqual((ran.returncode, ran.stderr), (1, b'kime-encode: 1 of 2 could not be encoded; see the lines with "error"\n'))
        self.assertEqual(encode("-q", stdin=jsonl(3)).stderr, b"")


if __name__ == "__main__":
    run()
