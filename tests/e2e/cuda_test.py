"""NVIDIA GPUs: what is said of them, which devices take part in a run, and what they score."""
import json
import os
import unittest

from support import DEMO, TESTDATA, Case, kime, lines, read


class OverFakes(Case):
    """With a library that acts as the CUDA driver in all its states, and runs kime's own kernels."""
    NEW, OLD = {"name": "Fake New", "capability": [9, 0], "memory_bytes": 8 << 30}, {"name": "Fake Old", "capability": [7, 5]}
    MODEL = os.path.join(TESTDATA, "parity", "nohead-f32")

    def kime(self, *args, library=os.environ["KIME_FAKE_LIBCUDA"], cublaslt=os.environ["KIME_FAKE_CUBLASLT"], stdin=b"", status=0, **driver):
        env = {"KIME_CUDA_DRIVER": library, "KIME_CUBLASLT": cublaslt, "KIME_FAKE_CUDA": json.dumps(driver)}
        ran = kime(*args, stdin=stdin, env=env)
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran

    def few(self, count=6):
        return b"".join(read(self.MODEL, "records.jsonl").splitlines(keepends=True)[:count])

    def scores(self, *args, model=None, **more):
        """The lines of a few records, and what was said; without cuBLASLt, which takes seconds to verify on fakes."""
        ran = self.kime("score", "-m", model or self.MODEL, *args, stdin=self.few(), **{"cublaslt": "libno-such.so.13", **more})
        return lines(ran.stdout), ran.stderr.decode()

    def near(self, got, want, tolerance):
        self.assertEqual([each["id"] for each in got], [each["id"] for each in want])
        for g, w in zip(got, want):
            for x, y in zip(g["logits"] + g["act"], w["logits"] + w["act"]):
                self.assertAlmostEqual(x, y, delta=tolerance)


class Cuda(OverFakes):
    """What is said of GPUs."""

    def devices(self, **driver):
        told = json.loads(self.kime("devices", "--json", **driver).stdout)
        text = self.kime("devices", **driver).stdout.decode()
        for missing in told["missing"]:
            self.assertIn(f"{missing['kind']}: none: {missing['why']}\n", text)
        return told, text

    def missing(self, why, **driver):
        told, _ = self.devices(**driver)
        self.assertEqual(told["missing"], [{"kind": "cuda", "why": why}])
        self.assertEqual(told["unused"], [])
        self.assertEqual({device["kind"] for device in told["devices"]}, {"cpu"})

    def test_no_library(self):
        self.missing("there is no NVIDIA driver: libno-such.so.1 was not found", library="libno-such.so.1")

    def test_a_library_that_is_none(self):
        path = self.path("libcuda.so.1", b"not a library\n")
        told, _ = self.devices(library=path)
        self.assertRegex(told["missing"][0]["why"], r"^the NVIDIA driver cannot be loaded: .*libcuda\.so\.1")

    def test_another_library(self):
        other = os.environ["KIME_FAKE_CUBLASLT"]
        self.missing(f"{other} is no CUDA driver: it lacks cuDriverGetVersion", library=other)

    def test_too_old(self):
        self.missing("the NVIDIA driver is too old: it has CUDA 11.8, and kime needs 12.4", version=11080)
        self.missing("the NVIDIA driver is too old: it has CUDA 12.3, and kime needs 12.4", version=12030)

    def test_functions_that_are_missing(self):
        self.missing("the NVIDIA driver lacks the function cuMemAlloc of CUDA 12.4", without=["cuMemAlloc"])
        self.missing("the NVIDIA driver lacks the functions cuInit, cuGraphLaunch of CUDA 12.4", without=["cuGraphLaunch", "cuInit"])

    def test_a_driver_that_does_not_start(self):
        self.missing("the NVIDIA driver does not start (cuInit: CUDA_ERROR_UNKNOWN: unknown error)", init=999)
        self.missing("the NVIDIA driver does not start (cuInit: error 803)", init=803)  # one that the library has no name for

    def test_no_device(self):
        self.missing("the NVIDIA driver finds no device (cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected)", init=100)
        self.missing("the NVIDIA driver finds no device", gpus=[])

    def test_all_too_old(self):
        self.missing("the NVIDIA driver has no device that kime can use: Fake Old: compute capability 7.5, and kime needs 8.0", gpus=[self.OLD])

    def test_two_devices(self):
        told, text = self.devices(gpus=[self.NEW, {**self.NEW, "name": "Fake Newer", "capability": [12, 0]}])
        self.assertEqual((told["missing"], told["unused"]), ([], []))
        *_, first, second = told["devices"]
        self.assertEqual([first[name] for name in ("device", "kind", "ordinal", "name", "compute_capability", "streams")],
                         ["cuda:0", "cuda", 0, "Fake New", "9.0", 2])
        self.assertEqual([first[name] for name in ("memory_bytes", "memory_used_bytes", "pci_bus_id", "uuid", "driver")],
                         [8 << 30, 300 << 20, "0000:1a:00.0", "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff", {"cuda": "12.8", "cublaslt": "12.8.5"}])
        self.assertEqual((second["device"], second["compute_capability"], second["pci_bus_id"]), ("cuda:1", "12.0", "0000:1b:00.0"))
        self.assertNotEqual(first["class"], second["class"])
        self.assertIn("cuda:0  Fake New\n", text)
        self.assertIn("  compute   capability 9.0, 4 multiprocessors, 2 streams suggested\n", text)
        self.assertIn("  memory    8.0 GiB, 0.3 GiB in use\n", text)
        self.assertIn("  library   CUDA driver 12.8, cuBLASLt 12.8.5\n", text)

    def test_one_of_two_is_too_old(self):
        told, text = self.devices(gpus=[self.OLD, self.NEW])
        new, (old,) = told["devices"][-1], told["unused"]
        self.assertEqual((new["device"], new["name"], new["pci_bus_id"]), ("cuda:0", "Fake New", "0000:1b:00.0"))
        self.assertEqual(old, {"kind": "cuda", "name": "Fake Old", "pci_bus_id": "0000:1a:00.0", "why": "compute capability 7.5, and kime needs 8.0"})
        self.assertIn("cuda  Fake Old (0000:1a:00.0): left out: compute capability 7.5, and kime needs 8.0\n", text)

    def test_memory_too_full_for_a_context(self):
        told, text = self.devices(gpus=[{**self.NEW, "memory_bytes": 100 << 20}])
        self.assertEqual(told["devices"][-1]["memory_used_bytes"], 0)
        self.assertIn("0.1 GiB, cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n", text)

    def test_no_cublaslt(self):
        told, text = self.devices(cublaslt="libno-such.so.13")
        why = "there is no cuBLASLt: none of libno-such.so.13 was found"
        self.assertEqual(told["missing"], [{"kind": "cublaslt", "why": why}])
        self.assertIn("  library   CUDA driver 12.8, no cuBLASLt\n", text)
        told, _ = self.devices(cublaslt=os.environ["KIME_FAKE_LIBCUDA"])
        self.assertRegex(told["missing"][0]["why"], r"is no cuBLASLt: it lacks cublasLtGetVersion$")

    def test_the_driver_is_opened_for_devices_that_it_may_have(self):
        log = self.path("opened")
        for command in (["score", "-m", self.MODEL, "--devices", "cpu"], ["score", "-m", self.MODEL, "--devices", "cpu:0"], ["model", DEMO],
                        ["check", "-m", DEMO], ["bench", "-m", self.MODEL, "--seconds", "0.1"], ["--version"]):
            self.kime(*command, log=log)
        self.assertFalse(os.path.exists(log))
        for count, command in enumerate((["devices"], ["score", "-m", self.MODEL], ["score", "-m", self.MODEL, "--devices", "cuda"])):
            self.kime(*command, log=log)
            self.assertEqual(read(log), b"opened\n" * (count + 1))


class OnGpus(OverFakes):
    """Scores from GPUs, and which devices take part."""

    def setUp(self):
        super().setUp()
        ran = kime("score", "-q", "-m", self.MODEL, "--devices", "cpu", stdin=self.few())
        self.on_cpu = lines(ran.stdout)

    def test_each_precision(self):
        for precision, tolerance in (("f32", 1e-4), ("f16", 0.02), ("bf16", 0.2), ("auto", 0.02)):
            with self.subTest(precision):
                stats = self.path("stats.json")
                got, told = self.scores("--devices", "cuda", "--precision", precision, "--stats", stats)
                self.near(got, self.on_cpu, tolerance)
                told = json.loads(read(stats))
                used = "f16" if precision == "auto" else precision
                self.assertEqual((told["precision"], told["devices"][0]["device"], told["devices"][0]["precision"]), (used, "cuda:0", used))
                self.assertEqual((told["devices"][0]["records"], told["devices"][0]["rescued"]), (6, 0))

    def test_all_is_both_kinds_and_reproducible_the_faster(self):
        stats = self.path("stats.json")
        on_gpu, _ = self.scores("--devices", "cuda")
        got, told = self.scores("--stats", stats)
        self.assertIn("devices of 2 classes work", told)
        for each, cpu, gpu in zip(got, self.on_cpu, on_gpu):
            self.assertIn(each, (cpu, gpu))
        told = json.loads(read(stats))
        self.assertEqual((told["precision"], [device["device"] for device in told["devices"]]), ("f16, f32", ["cpu:0", "cuda:0"]))
        self.assertEqual([device["kind"] for device in told["runtime"]["devices"]], ["cpu", "cuda"])
        got, told = self.scores("--reproducible")
        self.assertEqual(got, on_gpu)
        self.assertNotIn("classes", told)
        two = [self.NEW, self.NEW]
        self.assertEqual(self.scores("--devices", "cuda:1", gpus=two)[0], on_gpu)
        self.assertEqual(self.scores("--devices", "cuda", "--streams", "3", gpus=two)[0], on_gpu)

    def test_products_by_cublaslt_are_verified_once_and_change_with_no_bucket(self):
        library, cache, tables = os.environ["KIME_FAKE_CUBLASLT"], self.path("cache"), []
        for index, table in enumerate(("compat 64 4 64\ncompat 512 8 512\n", "compat 300 1 300\ncompat 512 8 512\n")):
            tables.append(self.path(f"buckets{index}", table.encode()))
        on = ("--devices", "cuda", "--precision", "bf16", "--cache", cache)
        first, _ = self.scores(*on, "--buckets", tables[0], cublaslt=library)
        self.near(first, self.on_cpu, 0.2)
        verdicts = set(os.listdir(cache))
        self.assertTrue(verdicts)
        self.assertEqual(self.scores(*on, "--buckets", tables[0], "--streams", "1", cublaslt=library)[0], first)
        self.assertEqual(set(os.listdir(cache)), verdicts)
        self.assertEqual(self.scores(*on, "--buckets", tables[1], cublaslt=library)[0], first)
        self.assertGreater(len(os.listdir(cache)), len(verdicts))  # other numbers of rows
        damaged = os.path.join(cache, sorted(verdicts)[0])
        with open(damaged, "wb") as file:
            file.write(b"kime products, format 9\n")
        got, told = self.scores(*on, "--buckets", tables[0], cublaslt=library)
        self.assertEqual(got, first)
        self.assertIn(damaged, told)

    def test_without_a_driver(self):
        none, why = {"library": "libno-such.so.1"}, "there is no NVIDIA driver: libno-such.so.1 was not found"
        got, told = self.scores(**none)
        self.assertEqual(got, self.on_cpu)
        self.assertEqual(told.count("\n"), 1)  # the summary
        got, told = self.scores("--devices", "cpu,cuda", **none)
        self.assertEqual(got, self.on_cpu)
        self.assertIn(f"kime: cuda is left out: device: {why}\n", told)
        got, told = self.scores("--devices", "cuda", status=2, **none)
        self.assertEqual((got, told), ([], f"kime: device: {why}\n"))

    def test_a_driver_that_does_not_work_is_told_of(self):
        got, told = self.scores(init=999)
        self.assertEqual(got, self.on_cpu)
        self.assertIn("kime: cuda is left out: device: the NVIDIA driver does not start (cuInit: ", told)
        self.assertEqual(self.scores("--devices", "cpu", init=999)[1].count("\n"), 1)

    def test_a_device_without_memory_is_left_out(self):
        got, told = self.scores(gpus=[{**self.NEW, "memory_bytes": 100 << 20}])
        self.assertEqual(got, self.on_cpu)
        self.assertRegex(told, "kime: cuda is left out: device: .*CUDA_ERROR_OUT_OF_MEMORY")

    def test_precisions_that_a_kind_lacks(self):
        got, told = self.scores("--precision", "f16")
        self.near(got, self.on_cpu, 0.02)
        self.assertIn("kime: cpu is left out: --precision f16: the CPU has f32, bf16 and int8\n", told)
        got, told = self.scores("--precision", "int8")
        self.assertIn("kime: cuda is left out: --precision int8: not on CUDA devices, which have f32, bf16 and f16\n", told)
        for precision, devices in (("f16", "cpu"), ("f16", "cpu,cuda"), ("int8", "cuda"), ("int8", "cuda:0,cpu")):
            got, told = self.scores("--precision", precision, "--devices", devices, status=2)
            self.assertEqual(got, [])
            self.assertIn(f"kime: --precision {precision}: ", told)

    def test_devices_that_are_not_there(self):
        told = self.scores("--devices", "cuda:1", status=2)[1]
        self.assertEqual(told, "kime: --devices cuda:1: there is only cuda:0\n")

    def test_bench(self):
        told = json.loads(self.kime("bench", "-m", self.MODEL, "--devices", "cuda", "--seconds", "0.1", "--records", self.path("few.jsonl", self.few()), "--json",
                                    cublaslt="libno-such.so.13").stdout)
        self.assertEqual((told["precision"], told["devices"]), ("f16", 1))
        self.assertGreater(told["tokens_per_second"], 0)
        self.assertNotIn("peak_gflops", told)
        for args, why in ((("--devices", "cpu,cuda"), "one kind of device"), (("--devices", "cuda", "--sweep"), "for CPUs only")):
            self.assertIn(why, self.kime("bench", "-m", self.MODEL, *args, status=2).stderr.decode())


if __name__ == "__main__":
    unittest.main()
