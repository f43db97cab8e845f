"""The same bits: the committed scores come out of every thread count, order, grouping, bucket table, instruction set and libc, and of
every build (this test runs against each preset's binary)."""
import os
import platform
import random
import re
import unittest

from support import DEMO, SANITIZED, TESTDATA, Case, jsonl, kime, lines, read, record

PARITY = os.path.join(TESTDATA, "parity")
SETS = {"demo": DEMO, **{name: os.path.join(PARITY, name) for name in sorted(os.listdir(PARITY))}}
# glibc told to hide what it dispatches its own functions on
HIDDEN = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F,-AVX512VL"}
CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_parity.py")


NARROW = ("bf16", "int8")


def golden(name, precision="f32"):
    return read(TESTDATA, "golden", name + ("" if precision == "f32" else "." + precision) + ".jsonl")


def targets():
    """The instruction sets that the binary was compiled for, as `kime --version -v` lists them, and those that this CPU runs."""
    told = kime("model", DEMO, "-v").stderr.decode()
    compiled = re.search(r"compiled targets: (.*)", told).group(1).split(", ")
    runnable = re.search(r"targets of this CPU: (.*)", told).group(1).split(", ")
    return compiled, runnable


class Golden(Case):
    def bits(self, name, *args, env=None, records=None):
        where = SETS[name]
        source = os.path.join(where, "records.jsonl") if records is None else records
        ran = kime("score", "-m", where, *args, source, env=env, timeout=1200)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_every_set(self):
        for name in SETS:
            with self.subTest(name):
                self.assertEqual(self.bits(name), golden(name))

    def test_any_number_of_threads(self):
        for name in ("demo", "loud-bf16-sharded"):
            for threads in ("1", "2", "3", "7"):
                with self.subTest(name, threads=threads):
                    self.assertEqual(self.bits(name, "--threads", threads), golden(name))

    def test_every_target_that_this_cpu_has(self):
        compiled, runnable = targets()
        for target in compiled:
            if target not in runnable:
                print(f"skipped: this CPU does not run {target}")
        for target in runnable:
            # emulated FMA is slow, more so when instrumented: the smallest sets say the same
            names = ("nohead-f32",) if target == "scalar" and SANITIZED else ("nohead-f32", "oldnames-f16") if target == "scalar" else SETS
            for name in names:
                with self.subTest(name, target=target):
                    self.assertEqual(self.bits(name, env={"KIME_CPU_TARGET": target}), golden(name))

    @unittest.skipUnless(platform.machine() == "x86_64", "the tunables are x86-64's")
    def test_a_libc_without_avx2_and_fma(self):
        for name in ("demo", "nohead-f32"):
            with self.subTest(name):
                self.assertEqual(self.bits(name, env=HIDDEN), golden(name))
                self.assertEqual(self.bits(name, "--emit", "all", env=HIDDEN), self.bits(name, "--emit", "all"))

    def test_any_order(self):
        for name in ("demo", "plain-f16"):
            source = read(SETS[name], "records.jsonl").splitlines(keepends=True)
            order = list(range(len(source)))
            seed = random.randrange(1 << 32)
            print(f"order of {name}: seed {seed}")
            random.Random(seed).shuffle(order)
            path = self.path("shuffled.jsonl", b"".join(source[i] for i in order))
            want = golden(name).splitlines()
            self.assertEqual(self.bits(name, records=path).splitlines(), [want[i] for i in order])

    def test_one_record_a_run(self):
        for name in ("demo", "nohead-f32"):
            source, want = read(SETS[name], "records.jsonl").splitlines(keepends=True), golden(name).splitlines(keepends=True)
            for i in range(0, len(source), 9):
                ran = kime("score", "-m", SETS[name], stdin=source[i])
                self.assertEqual(ran.stdout, want[i])

    def test_any_bucket_table(self):
        source = read(DEMO, "records.jsonl")
        for table in ("s 150 1 16\n", "s 200 2 16\ns 4000 60 400\n", "s 16384 2000 16384\n", "".join(f"s {n} {n} {n}\n" for n in range(150, 2000, 37))):
            path = self.path("table", table.encode())
            ran = kime("score", "-m", DEMO, "--buckets", path, "--stage", "s", stdin=source)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stdout, golden("demo"))

    def test_bad_records_between_change_nothing(self):
        source, want = read(DEMO, "records.jsonl").splitlines(keepends=True), golden("demo").splitlines(keepends=True)
        ran = kime("score", "-m", DEMO, stdin=b"".join(line + b"broken\n" for line in source))
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stdout.splitlines(keepends=True)[::2], want)


class Narrow(Golden):
    """All of the above for the other precisions, where their own code has a say."""

    def each(self, names, *args, **more):
        for precision in NARROW:
            for name in names:
                with self.subTest(name, precision=precision, args=args, **more):
                    self.assertEqual(self.bits(name, "--precision", precision, *args, **more), golden(name, precision))

    def test_every_set(self):
        self.each(SETS)

    def test_any_number_of_threads(self):
        for threads in ("1", "3", "7"):
            self.each(("demo", "nohead-f32"), "--threads", threads)
        self.each(("demo", "nohead-f32"), "--virtual-cpus", "2", "--streams", "2")

    def test_every_target_that_this_cpu_has(self):
        for target in targets()[1]:
            self.each(("nohead-f32",) if target == "scalar" or SANITIZED else SETS, env={"KIME_CPU_TARGET": target})

    def test_a_libc_without_avx2_and_fma(self):
        if platform.machine() != "x86_64":
            self.skipTest("the tunables are x86-64's")
        self.each(("nohead-f32",), env=HIDDEN)
        self.each(("nohead-f32",), env={**HIDDEN, "KIME_CPU_TARGET": "scalar"})

    def test_any_order(self):
        source = read(DEMO, "records.jsonl").splitlines(keepends=True)
        path = self.path("reversed.jsonl", b"".join(reversed(source)))
        for precision in NARROW:
            ran = self.bits("demo", "--precision", precision, records=path)
            self.assertEqual(ran.splitlines(), golden("demo", precision).splitlines()[::-1])

    def test_one_record_a_run(self):
        source = read(DEMO, "records.jsonl").splitlines(keepends=True)
        for precision in NARROW:
            want = golden("demo", precision).splitlines(keepends=True)
            for i in range(0, len(source), 19):
                self.assertEqual(kime("score", "-m", DEMO, "--precision", precision, stdin=source[i]).stdout, want[i])

    def test_any_bucket_table(self):
        for table in ("s 150 1 16\n", "s 200 2 16\ns 4000 60 400\n", "s 16384 2000 16384\n"):
            self.each(("demo",), "--buckets", self.path("table", table.encode()), "--stage", "s")

    def test_bad_records_between_change_nothing(self):
        source = read(DEMO, "records.jsonl").splitlines(keepends=True)
        for precision in NARROW:
            ran = kime("score", "-m", DEMO, "--precision", precision, stdin=b"".join(line + b"broken\n" for line in source))
            self.assertEqual(ran.returncode, 1)
            self.assertEqual(ran.stdout.splitlines(keepends=True)[::2], golden("demo", precision).splitlines(keepends=True))


class Parity(Case):
    def test_other_precisions_are_within_their_tolerances(self):
        import subprocess
        import sys
        for name, where in SETS.items():
            for precision in NARROW:
                with self.subTest(name, precision=precision):
                    ran = kime("score", "-m", where, "--emit", "all", "--precision", precision, os.path.join(where, "records.jsonl"))
                    judged = subprocess.run([sys.executable, CHECK, where, self.path("scores", ran.stdout), "--precision", precision, "--factor", "0.6"],
                                            capture_output=True, check=False)
                    self.assertEqual(judged.returncode, 0, judged.stderr.decode() + judged.stdout.decode())

    def test_all_forms_of_every_set_at_half_the_tolerance(self):
        import subprocess
        import sys
        for name, where in SETS.items():
            for form in ("logits", "probs", "answer", "all"):
                with self.subTest(name, form=form):
                    scores = self.path("scores", kime("score", "-m", where, "--emit", form, os.path.join(where, "records.jsonl")).stdout)
                    ran = subprocess.run([sys.executable, CHECK, where, scores, "--form", form, "--factor", "0.5"], capture_output=True, check=False)
                    self.assertEqual(ran.returncode, 0, ran.stderr.decode() + ran.stdout.decode())


class Long(Case):
    def test_a_sequence_of_8192_tokens(self):
        ran = self.score(jsonl(record(id="long", n=8192), record(id="short")))
        self.assertEqual([line["id"] for line in ran], ["long", "short"])
        self.assertEqual(ran[1], self.score(jsonl(record(id="short")))[0])

    def test_many_copies_hold_order_count_and_bytes(self):
        source, want = read(DEMO, "records.jsonl"), golden("demo")
        copies = 3 if SANITIZED else 10
        path = self.path("many.jsonl", source * copies)
        ran = kime("score", "-m", DEMO, path, timeout=1200)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(lines(ran.stdout)), 400 * copies)
        self.assertEqual(ran.stdout, want * copies)


if __name__ == "__main__":
    unittest.main()
