"""Several devices: the same bits on any layout, what is said about them, and what is refused."""
import json
import os
import shutil
import struct
import subprocess
import time
import unittest

from support import DEMO, KIME, SANITIZED, TESTDATA, Case, jsonl, kime, lines, read, record

PARITY = os.path.join(TESTDATA, "parity")
SETS = {"demo": DEMO, **{name: os.path.join(PARITY, name) for name in sorted(os.listdir(PARITY))}}


def records(where):
    return os.path.join(where, "records.jsonl")


class Layouts(Case):
    def bits(self, name, *args):
        ran = kime("score", "-q", "-m", SETS[name], *args, records(SETS[name]), timeout=1200)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout, read(TESTDATA, "golden", name + ".jsonl"))

    def test_every_set_on_every_layout(self):
        layouts = [(cpus, streams) for cpus in ("1", "2", "3", "4") for streams in ("1", "2", "3", "4", "one", "overlap", "cores")]
        some = layouts[::4]  # of each number of devices, and each strategy once
        for name in ("nohead-f32",) if SANITIZED else SETS:
            for cpus, streams in layouts if name == "nohead-f32" else some:
                with self.subTest(name, virtual_cpus=cpus, streams=streams):
                    self.bits(name, "--virtual-cpus", cpus, "--streams", streams)

    def test_some_of_the_devices(self):
        for devices in ("cpu", "all", "cpu:0", "cpu:2", "cpu:2,cpu:0"):
            with self.subTest(devices):
                self.bits("nohead-f32", "--virtual-cpus", "3", "--devices", devices)

    def test_reproducible_changes_nothing_on_cpus(self):
        self.bits("nohead-f32", "--virtual-cpus", "2", "--reproducible")


class Refused(Case):
    def refuse(self, message, *args, command="score"):
        ran = kime(command, *(["-m", DEMO] if command == "score" else []), *args, stdin=jsonl(record()))
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertEqual(ran.stdout, b"")
        self.assertIn(message, ran.stderr.decode())

    def test_devices(self):
        self.refuse("--devices cpu:7: there is only cpu:0", "--virtual-cpus", "1", "--devices", "cpu:7")
        self.refuse("--devices cpu:3: there are cpu:0 to cpu:2", "--virtual-cpus", "3", "--devices", "cpu:0,cpu:3")
        self.refuse("--devices: the list is empty", "--devices", "")
        self.refuse("--devices: a name of the list is empty", "--devices", "cpu:0,")
        self.refuse("--devices: cpu:0 stands twice", "--devices", "cpu:0,cpu:0")
        self.refuse("--devices 'tpu': there are all, cpu, cuda, and names like cpu:0", "--devices", "tpu")
        self.refuse("--devices 'cudax': there are all", "--devices", "cudax")
        self.refuse("--devices cuda:: a device is named like cuda:0", "--devices", "cuda:")
        self.refuse("--devices cpu:x: a device is named like cpu:0", "--devices", "cpu:x")

    def test_streams_and_cpus(self):
        for command in ("score", "devices"):
            self.refuse("--streams 0: a device has 1 to 4096 streams", "--streams", "0", command=command)
            self.refuse("--streams 4097: a device has 1 to 4096 streams", "--streams", "4097", command=command)
            self.refuse("--streams 'many': it takes one, overlap, cores, or a number", "--streams", "many", command=command)
            self.refuse("--streams '': it takes one, overlap, cores, or a number", "--streams", "", command=command)
            self.refuse("--virtual-cpus", "--virtual-cpus", "0", command=command)
            self.refuse("--virtual-cpus", "--virtual-cpus", "1025", command=command)
        self.refuse("--device-timeout", "--device-timeout", "0")
        self.refuse("--device-timeout", "--device-timeout", "soon")

    @unittest.skipIf(SANITIZED, "sanitizers map far more than any limit")
    def test_more_streams_than_memory_allows(self):
        def limit():
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        ran = subprocess.run([KIME, "score", "-m", DEMO, "--streams", "4096"], input=jsonl(record()), capture_output=True, check=False, preexec_fn=limit)
        self.assertEqual(ran.returncode, 2, ran.stderr)
        self.assertEqual(ran.stdout, b"")
        self.assertRegex(ran.stderr.decode(), r"^kime: device: stream \d+ of 4096: no thread")

    def test_files_that_cannot_be_written(self):
        for option in ("--stats", "--trace"):
            self.refuse("/no/such/folder/file: No such file or directory", option, "/no/such/folder/file")


class Timeout(Case):
    @unittest.skipIf(SANITIZED, "a sanitizer is slow")
    def test_a_device_that_takes_too_long_ends_the_run_when_it_is_the_last(self):
        good, long = jsonl(record(id="good")), jsonl(record(id="long", n=16000))
        process = subprocess.Popen([KIME, "score", "-m", DEMO, "--device-timeout", "0.25", "--threads", "1"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            process.stdin.write(good)
            process.stdin.flush()
            self.assertIn(b'"id":"good"', process.stdout.readline())
            begin = time.monotonic()
            process.stdin.write(long + good)
            process.stdin.close()
            self.assertEqual(process.stdout.read(), b"")  # no line is invented
            told = process.stderr.read().decode()
            self.assertEqual(process.wait(60), 3, told)
            self.assertLess(time.monotonic() - begin, 60)
        self.assertIn("kime: cpu:0 is retired: device: cpu:0.0 has not answered for 250 ms; it was the last device", told)
        self.assertIn("kime: no device is left: device: cpu:0.0 has not answered for 250 ms", told)


class Said(Case):
    def test_devices_as_json(self):
        ran = kime("devices", "--json", "--virtual-cpus", "3", "--streams", "overlap")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        told = json.loads(ran.stdout)
        self.assertEqual([device["device"] for device in told["devices"]], ["cpu:0", "cpu:1", "cpu:2"])
        for ordinal, device in enumerate(told["devices"]):
            self.assertEqual((device["kind"], device["class"], device["ordinal"], device["streams"]), ("cpu", "cpu", ordinal, 2))
            self.assertGreaterEqual(device["cores"], 1)
            self.assertGreater(device["memory_bytes"], device["memory_used_bytes"])
            self.assertGreater(device["memory_used_bytes"], 0)
            self.assertIn(device["simd_target"], device["simd_targets"])
            self.assertIn("features", device)
            self.assertRegex(device["driver"]["onetbb"], r"^\d+\.\d+")
        self.assertEqual(told["limits"], {"bucket_tokens": None, "threads_per_group": None, "group_memory_bytes": None})
        self.assertIn("cuda", [missing["kind"] for missing in told["missing"]])
        self.assertNotIn("debug", told)
        self.assertIn("calls", json.loads(kime("devices", "--json", "-v").stdout)["debug"])

    def test_devices_for_people(self):
        told = kime("devices", "--virtual-cpus", "2").stdout.decode()
        self.assertRegex(told, r"(?m)^cpu:0  ")
        self.assertRegex(told, r"(?m)^cpu:1  ")
        self.assertRegex(told, r"(?m)^cuda: none: ")

    def test_stats(self):
        path = self.path("stats.json")
        ran = kime("score", "-m", DEMO, "--virtual-cpus", "2", "--streams", "2", "--stats", path, records(DEMO))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        stats = json.loads(read(path))
        devices = stats["devices"]
        self.assertEqual([device["device"] for device in devices], ["cpu:0", "cpu:1"])
        self.assertEqual(sum(device["records"] for device in devices), 400)
        self.assertEqual(sum(device["tokens"] for device in devices), stats["tokens"])
        self.assertEqual(sum(device["batches"] for device in devices), stats["batches"])
        for device in devices:
            self.assertEqual((device["streams"], device["failures"], device["padding"], device["retired"]), (2, 0, 0, None))
            self.assertAlmostEqual(device["busy_share"] + device["idle_share"], 1)
            self.assertGreater(device["busy_share"], 0)
        # the weights of the one are the other's too
        first, second = (device["weights"][0] for device in stats["runtime"]["devices"])
        self.assertEqual(first, second)
        self.assertEqual(stats["runtime"]["calls"]["init_from_host"], 1)

    def test_trace(self):
        path = self.path("trace.json")
        ran = kime("score", "-m", DEMO, "--virtual-cpus", "2", "--streams", "2", "--trace", path, records(DEMO))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        events = json.loads(read(path))["traceEvents"]
        rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        for device in (0, 1):
            for stream in (0, 1):
                self.assertIn(f"cpu:{device}.{stream}", rows.values())
                self.assertIn(f"cpu:{device}.{stream} batches", rows.values())
        spans = [event for event in events if event["ph"] == "X"]
        named = {}
        for span in spans:
            self.assertGreaterEqual(span["ts"], 0)
            self.assertGreaterEqual(span["dur"], 0)
            named.setdefault(rows[span["tid"]], []).append(span)
        self.assertEqual(sum(span["args"]["records"] for row, all in named.items() if row.endswith(" batches") for span in all), 400)
        self.assertEqual(sum(span["args"]["records"] for span in named["reads"]), 400)
        self.assertTrue(named["writes"])
        runs = 0
        for row, all in named.items():
            all.sort(key=lambda span: span["ts"])
            for before, after in zip(all, all[1:]):  # nothing of a row overlaps
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002, row)
            runs += sum(span["name"] == "run" for span in all)
        batches = sum(len(all) for row, all in named.items() if row.endswith(" batches"))
        self.assertEqual(runs, batches)

    def test_more_is_said_with_v(self):
        told = kime("score", "-v", "-m", DEMO, "--virtual-cpus", "2", records(DEMO)).stderr.decode()
        self.assertIn("cpu:0", told)
        self.assertIn("cpu:1", told)


class Threads(Case):
    def threads_under(self, *taskset):
        """How many threads kime has while it waits for input after a record, and how many streams it said it has."""
        with subprocess.Popen([*taskset, KIME, "score", "-v", "-m", DEMO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdin.write(jsonl(record()))
            process.stdin.flush()
            process.stdout.readline()
            threads = len(os.listdir(f"/proc/{process.pid}/task"))
            process.stdin.close()
            told = process.stderr.read().decode()
            process.stdout.read()
        self.assertEqual(process.returncode, 0, told)
        return threads, told

    @unittest.skipIf(SANITIZED, "a sanitizer may have threads of its own")
    @unittest.skipUnless(shutil.which("taskset"), "there is no taskset")
    def test_one_cpu_is_one_stream(self):
        cpu = str(min(os.sched_getaffinity(0)))
        threads, told = self.threads_under("taskset", "-c", cpu)
        self.assertIn("1 stream", told)
        self.assertEqual(threads, 4, "the reader, the writer, the stream and its lane")

    @unittest.skipIf(SANITIZED, "a sanitizer is slow")
    def test_waiting_costs_no_time(self):
        with subprocess.Popen([KIME, "score", "-q", "-m", DEMO, "--virtual-cpus", "4", "--streams", "8"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write(jsonl(record()))
            process.stdin.flush()
            process.stdout.readline()

            def ticks():
                with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])

            time.sleep(0.2)  # helpers look for more work for some microseconds
            before = ticks()
            time.sleep(2)  # what is measured: the time that passes meanwhile
            self.assertLessEqual(ticks() - before, 2)  # of 200: 1 % of a core
            process.stdin.close()
            process.stdout.read()
        self.assertEqual(process.returncode, 0)


class Ensembles(Case):
    A = os.path.join(PARITY, "plain-f16")
    B = os.path.join(PARITY, "oldnames-f16")
    FILE = records(A)

    def scores(self, *args):
        ran = kime("score", "-q", *args, self.FILE)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return lines(ran.stdout)

    def test_mean(self):
        apart = [self.scores("-m", model, "--emit", "probs") for model in (self.A, self.B, self.A)]
        for layout in ((), ("--virtual-cpus", "2", "--streams", "1"), ("--virtual-cpus", "3", "--streams", "2"), ("--streams", "one")):
            with self.subTest(layout):
                together = self.scores("-m", self.A, "-m", self.B, "-m", self.A, *layout)
                self.assertEqual(len(together), len(apart[0]))
                for *each, mean in zip(*apart, together):
                    self.assertEqual(list(mean), ["id", "act", "probs"])
                    self.assertEqual(mean["probs"], [(a + b + c) / 3 for a, b, c in zip(*(one["probs"] for one in each))])
                    acts = ([struct.unpack("f", struct.pack("f", x))[0] for x in one["act"]] for one in each)
                    self.assertEqual(mean["act"], [(a + b + c) / 3 for a, b, c in zip(*acts)])

    def test_logits(self):
        def rounded(value):
            return struct.unpack("f", struct.pack("f", value))[0]
        apart = [self.scores("-m", model) for model in (self.A, self.B)]
        for layout in ((), ("--virtual-cpus", "2", "--streams", "1")):
            together = self.scores("-m", self.A, "-m", self.B, "--ensemble", "logits", *layout)
            for one, two, both in zip(*apart, together):
                for field in ("logits", "act"):
                    want = [rounded((rounded(a) + rounded(b)) / 2) for a, b in zip(one[field], two[field])]
                    self.assertEqual([rounded(value) for value in both[field]], want)

    def test_answers_and_everything(self):
        told = self.scores("-m", self.A, "-m", self.B, "--emit", "all")
        self.assertIn("act_probability", told[0])
        self.assertNotIn("logits", told[0])
        self.assertIn("logits", self.scores("-m", self.A, "-m", self.B, "--emit", "all", "--ensemble", "logits")[0])

    def test_refused(self):
        ran = kime("score", "-m", self.A, "-m", self.B, "--emit", "logits", self.FILE)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--ensemble mean averages probabilities and has no logits", ran.stderr.decode())
        ran = kime("score", "-m", self.A, "-m", DEMO, self.FILE)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("has a vocabulary of 640, but", ran.stderr.decode())
        ran = kime("check", "-m", self.A, "-m", self.B, self.FILE)
        self.assertEqual(ran.returncode, 2)


if __name__ == "__main__":
    unittest.main()
