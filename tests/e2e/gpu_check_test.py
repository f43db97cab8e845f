"""scripts/gpu-check: its steps and how it judges them, over a stand-in for a kime that has a GPU; what it packs; and the fake driver."""
import json
import os
import subprocess
import sys
import tarfile
import unittest

from support import KIME, SANITIZED, Case

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GPU_CHECK = os.path.join(ROOT, "scripts", "gpu-check")
GPU = "cuda:0 Stand-in"

# A kime that says it has a GPU and scores on the CPU. STAND_IN, a JSON object, says what goes wrong: {"command": score, what it does: and only
# for command lines that have this word}.
STAND_IN = r'''#!{python}
import json, os, signal, subprocess, sys
args, wrong = sys.argv[1:], json.loads(os.environ.get("STAND_IN", "{{}}"))
met = {{what for what, word in wrong.items() if word in args}}
if "hang" in met:
    signal.pause()
if "fail" in met:
    sys.exit("kime: device: cuda:0: CUDA_ERROR_ILLEGAL_ADDRESS")
if args[0] == "devices":
    print(json.dumps({{"devices": [{{"kind": "cuda", "device": "cuda:0", "name": "Stand-in"}}], "missing": []}}))
    sys.exit()
place = {{"cuda": "cpu", "f16": "f32"}}  # no CPU has f16
args = [place.get(arg, arg) for arg in args]
if not met:
    os.execv("{kime}", ["{kime}", *args])
said = subprocess.run(["{kime}", *args], capture_output=True, check=True).stdout
if "other" in met:
    said = said.replace(b"1", b"2")
if "fewer" in met:
    said = b"".join(said.splitlines(keepends=True)[:-1])
sys.stdout.buffer.write(said)
'''
SANITIZER = r'''#!/bin/sh
while [ "$1" != --error-exitcode ]; do shift; done
shift 2
"$@" && echo "========= ERROR SUMMARY: $SANITIZER_FINDS"
'''
STEPS = ["devices", "tests on the device", "parity, f32", "parity, f16", "parity, bf16", "same bits, f32", "same bits, f16", "same bits, bf16",
         "compute-sanitizer", "speed, nohead-f32", "latency, nohead-f32"]


class Check(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("tests"))
        self.program("kime", STAND_IN.format(python=sys.executable, kime=KIME))

    def program(self, name, text):
        self.path(name, text.encode())
        os.chmod(self.path(name), 0o755)

    def device_tests(self, text="#!/bin/sh\necho All tests passed\n"):
        self.program(os.path.join("tests", "kime_test_cuda_device"), text)

    def check(self, *args, status=0, env=None, script=GPU_CHECK, **wrong):
        """Runs it over the stand-in; returns the steps by name."""
        told = self.path("gpu-check.json")
        env = {**os.environ, "KIME": self.path("kime"), "PATH": self.folder.name + ":" + os.environ["PATH"], "STAND_IN": json.dumps(wrong), **(env or {})}
        ran = subprocess.run([sys.executable, "-B", script, "--json", told, *args], env=env, capture_output=True, text=True, timeout=900, check=False)
        if status is not None:
            self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        self.text = ran.stdout
        with open(told, encoding="utf-8") as source:
            self.document = json.load(source)
        self.assertEqual(self.document["status"], "failed" if ran.returncode else "ok")
        steps = {step["name"]: step for step in self.document["steps"]}
        for step in steps.values():
            self.assertRegex(self.text, rf"(?m)^{step['name']} +{step['status']} ")
        return steps

    def failed(self, step, reason):
        self.assertEqual(step["status"], "failed", step)
        self.assertRegex(step["detail"], reason)


class AllHolds(Check):
    def test_every_step_of_the_fakes(self):
        self.device_tests()
        self.program("compute-sanitizer", SANITIZER)
        steps = self.check("--fake", env={"SANITIZER_FINDS": "0 errors"})
        self.assertEqual(list(steps), STEPS)
        for step in steps.values():
            self.assertEqual(step["status"], "ok", step)
            self.assertLess(step["seconds"], step["limit_seconds"])
        self.assertTrue(self.document["fake"])
        self.assertRegex(self.document["kime"], r"^kime \d")
        self.assertEqual(steps["devices"]["detail"], GPU)
        self.assertEqual(steps["tests on the device"]["detail"], "All tests passed")
        self.assertRegex(steps["same bits, f16"]["detail"], r"^8 records, 5 ways")
        speed, latency = steps["speed, nohead-f32"]["figures"], steps["latency, nohead-f32"]["figures"]
        self.assertGreater(speed["tokens_per_second"], 0)
        self.assertGreater(speed["model_gflops"], 0)
        self.assertIsNone(speed["share_of_gemm"])  # no GPU, no rate to be a share of
        self.assertIn("share of a large product's rate: - (not measured)", steps["speed, nohead-f32"]["detail"])
        self.assertGreater(speed["host_cores"], 0.05)
        self.assertEqual(latency["tokens"], 16)
        self.assertGreaterEqual(latency["p99_seconds"], latency["median_seconds"])
        self.assertGreater(latency["median_seconds"], 0)
        self.assertIn("gpu-check: 11 steps", self.text)

    def test_every_set_where_there_is_a_gpu(self):
        steps = self.check("--only", "parity, f32")
        self.assertEqual(list(steps), ["devices", "parity, f32"])
        self.assertEqual(len(steps["parity, f32"]["figures"]["sets"]), 6)
        self.assertFalse(self.document["fake"])


    def test_a_share_of_a_large_product_measured_in_the_same_run(self):
        sys.path.insert(0, os.path.join(ROOT, "scripts", "gpu"))
        from place import Place
        from runner import Done
        from steps import gemm_rate, speed
        place = Place(self.folder.name, fake=False)
        gemm_rate(place, [Done([], 0, json.dumps({"gflops": 8e5, "side": 8192, "precision": "f16"}).encode(), "", 1, 1)])
        told = {"precision": "f16", "tokens_per_second": 1.7e6, "model_gflops": 4e5}
        text, figures = speed(place, "base", [Done([], 0, json.dumps(told).encode(), "", 20, 15)])
        self.assertEqual(text, "1,700,000 tokens/s, 400 TFLOP/s, 50.0 % of the product's rate, 0.75 host cores")
        self.assertEqual((figures["share_of_gemm"], figures["host_cores"]), (0.5, 0.75))


class SomethingIsWrong(Check):
    def test_no_device(self):
        steps = self.check("--fake", status=1, env={"KIME": KIME, "KIME_FAKE_CUDA": json.dumps({"init": 100})})
        self.failed(steps["devices"], "^no CUDA device: the NVIDIA driver finds no device")
        for name in STEPS[1:]:
            self.assertEqual((steps[name]["status"], steps[name]["detail"]), ("skipped", steps["devices"]["detail"]))

    def test_a_command_that_fails(self):
        self.device_tests("#!/bin/sh\necho kernel_test.cpp:7: FAILED\nexit 42\n")
        steps = self.check("--fake", "--only", "parity, f16", "tests", status=1, fail="f16")
        self.failed(steps["parity, f16"], "^status 1 of .*--precision f16")
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", steps["parity, f16"]["output"])
        self.failed(steps["tests on the device"], "^status 42")
        self.assertIn("kernel_test.cpp:7", steps["tests on the device"]["output"])

    def test_other_scores(self):
        steps = self.check("--fake", "--only", "parity, f32", status=1, other="score")
        self.failed(steps["parity, f32"], "^nohead-f32: the scores are not the reference's")
        self.assertIn("expected", steps["parity, f32"]["output"])

    def test_bits_that_depend_on_the_batch(self):
        for what in ("other", "fewer"):
            steps = self.check("--fake", "--only", "same bits, f32", status=1, **{what: "--buckets"})
            self.failed(steps["same bits, f32"], r"^\d+ of 8 lines differ .*--buckets")

    def test_a_hang_ends_with_its_time_and_leaves_none_to_others(self):
        steps = self.check("--fake", "--only", "parity", "--seconds", "3", status=1, hang="f32")
        self.failed(steps["parity, f32"], r"^not through within \d s: .*--precision f32")
        self.assertEqual((steps["parity, bf16"]["status"], steps["parity, bf16"]["detail"]), ("skipped", "no time is left"))
        self.assertLess(self.document["seconds"], 30)

    def test_a_record_that_is_not_answered(self):
        steps = self.check("--fake", "--only", "latency", "--seconds", "3", status=1, hang="score")
        self.failed(steps["latency, nohead-f32"], "^not through within")
        steps = self.check("--fake", "--only", "latency", status=1, fail="score")
        self.failed(steps["latency, nohead-f32"], "^status 1 of .*latency.py")
        self.assertIn("latency: record 0 was not answered", steps["latency, nohead-f32"]["output"])

    def test_what_compute_sanitizer_finds(self):
        self.program("compute-sanitizer", SANITIZER)
        steps = self.check("--fake", "--only", "sanitizer", status=1, env={"SANITIZER_FINDS": "2 errors"})
        self.failed(steps["compute-sanitizer"], "^2 errors")

    def test_what_cannot_be_done(self):
        self.program("compute-sanitizer", "#!/bin/sh\necho ========= Error: Device not supported. Please refer to the documentation.\nexit 1\n")
        steps = self.check("--fake", "--only", "sanitizer")
        self.assertEqual(steps["compute-sanitizer"]["status"], "skipped")
        self.assertRegex(steps["compute-sanitizer"]["detail"], "Device not supported")
        steps = self.check("--fake", "--only", "tests", status=1)  # required, unlike the sanitizer
        self.assertEqual(steps["tests on the device"]["status"], "skipped")
        self.assertIn("this build has no kime_test_cuda_device", steps["tests on the device"]["detail"])

    def test_no_kime(self):
        ran = subprocess.run([sys.executable, "-B", GPU_CHECK], env={**os.environ, "KIME": self.path("none")}, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("does not run; build it first", ran.stderr)


class Packed(Check):
    def pack(self, *args, status=0):
        archive = self.path("packed.tar.gz")
        ran = subprocess.run([sys.executable, "-B", GPU_CHECK, "--pack", archive, *args], env={**os.environ, "KIME": KIME}, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        return archive, ran.stderr

    def test_the_archive_checks_itself_elsewhere(self):
        archive, _ = self.pack()
        self.assertLess(os.path.getsize(archive), 60 << 20)
        with tarfile.open(archive) as packed:
            names = packed.getnames()
            packed.extractall(self.folder.name)
        for library in ("libtbb.so.12", "libfmt.so.9", "libhwy.so.1"):
            self.assertIn(f"kime-gpu-check/lib-packed/{library}", names)
        self.assertFalse([name for name in names if "libc.so" in name or "__pycache__" in name])
        script = self.path("kime-gpu-check/scripts/gpu-check")
        own = self.path("kime-gpu-check/build/release/kime")
        steps = self.check("--fake", "--only", "devices", status=None, env={"KIME": own}, script=script)
        self.assertEqual(list(steps), ["devices"])
        # its libraries are those of the archive
        self.path("kime-gpu-check/lib-packed/libfmt.so.9", b"")
        ran = subprocess.run([sys.executable, script], env={**os.environ, "KIME": own}, capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(f"{own} does not run", ran.stderr)

    def test_too_large(self):
        archive, said = self.pack("--most-bytes", "1000", status=1)
        self.assertRegex(said, r"^gpu-check: the archive has [\d,]+ bytes, 1,000 are the most")
        self.assertFalse(os.path.exists(archive))


class Fakes(Check):
    @unittest.skipIf(SANITIZED, "the kernels run fiber by fiber: minutes")
    def test_kime_over_the_fake_driver(self):
        told = json.loads(subprocess.run([KIME, "devices", "--json"], capture_output=True, check=True, env={
            **os.environ, "KIME_CUDA_DRIVER": os.environ["KIME_FAKE_LIBCUDA"], "KIME_CUBLASLT": os.environ["KIME_FAKE_CUBLASLT"]}).stdout)
        scores = any(device["kind"] == "cuda" for device in told["devices"])
        steps = self.check("--fake", status=0 if scores else 1, env={"KIME": KIME})
        for name in STEPS[1:]:
            self.assertIn(steps[name]["status"], ("ok", "skipped") if name == "compute-sanitizer" else ("ok",) if scores else ("skipped",), steps[name])


if __name__ == "__main__":
    unittest.main()
