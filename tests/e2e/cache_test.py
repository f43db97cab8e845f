"""kime score --cache: the same scores with it, and whatever is wrong with it costs a notice and no run."""
import os
import resource
import subprocess
import unittest

from support import DEMO, KIME, SANITIZED, Case, kime, read

SUMMARY = b"records scored in"


def notices(ran):
    """Standard error without the summary."""
    return [line for line in ran.stderr.decode().splitlines() if SUMMARY.decode() not in line]


class Cache(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.path("cache")
        some = read(DEMO, "records.jsonl").splitlines(keepends=True)[:30]
        self.records = self.path("records.jsonl", b"".join(some))

    def run_demo(self, *args, cache=True, **more):
        ran = kime("score", self.records, "-m", DEMO, *(["--cache", self.cache] if cache else []), *args, **more)
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        return ran

    def file(self):
        (name,) = os.listdir(self.cache)
        return os.path.join(self.cache, name)

    def flip(self, at):
        with open(self.file(), "r+b") as out:
            out.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
            byte = out.read(1)[0]
            out.seek(-1, os.SEEK_CUR)
            out.write(bytes([byte ^ 1]))

    def test_the_same_scores_in_every_precision(self):
        for number, precision in enumerate(("f32", "bf16", "int8"), 1):
            with self.subTest(precision):
                want = self.run_demo("--precision", precision, cache=False)
                first = self.run_demo("--precision", precision, "-v")
                self.assertIn(b"; weights put into the cache\n", first.stderr)
                again = self.run_demo("--precision", precision, "-v")
                self.assertIn(b"; weights from the cache\n", again.stderr)
                self.assertEqual(first.stdout, want.stdout)
                self.assertEqual(again.stdout, want.stdout)
                self.assertEqual(len(os.listdir(self.cache)), number)

    def test_damage_is_one_notice_and_the_same_scores(self):
        want = self.run_demo(cache=False).stdout
        self.assertEqual(notices(self.run_demo()), [])
        size = os.path.getsize(self.file())
        for damage, why in ((lambda: os.truncate(self.file(), size - 1), f"it has {size - 1} bytes, not {size}"),
                            (lambda: os.truncate(self.file(), 0), f"it has 0 bytes, not {size}"),
                            (lambda: self.flip(3), "it holds no weights of kime's"),
                            (lambda: self.flip(30), "its head is damaged"),
                            (lambda: self.flip(42), "its head is damaged"),
                            (lambda: self.flip(-1), "its content is damaged")):
            with self.subTest(why):
                damage()
                ran = self.run_demo()
                self.assertEqual(ran.stdout, want)
                self.assertEqual(notices(ran), [f"kime: cache: {self.file()}: {why}; weights come from the checkpoint, and the file is written anew"])
                ran = self.run_demo("-v")
                self.assertIn(b"; weights from the cache\n", ran.stderr)
                self.assertEqual(ran.stdout, want)
                damage()
                ran = self.run_demo("-q")
                self.assertEqual((ran.stdout, ran.stderr), (want, b""))

    def test_a_folder_that_cannot_be_made_is_one_notice(self):
        want = self.run_demo(cache=False).stdout
        self.cache = os.path.join(self.path("file", b"no folder"), "cache")
        ran = self.run_demo()
        self.assertEqual(ran.stdout, want)
        self.assertEqual(len(notices(ran)), 1, ran.stderr)
        self.assertIn("its folder cannot be made: Not a directory", notices(ran)[0])
        ran = self.run_demo("-q")
        self.assertEqual((ran.stdout, ran.stderr), (want, b""))

    @unittest.skipIf(os.geteuid() == 0, "permissions mean nothing to root")
    def test_a_folder_that_may_not_be_written_is_one_notice(self):
        want = self.run_demo(cache=False).stdout
        os.mkdir(self.cache, 0o555)
        ran = self.run_demo()
        self.assertEqual(ran.stdout, want)
        self.assertEqual(len(notices(ran)), 1, ran.stderr)
        self.assertIn("it cannot be written: Permission denied", notices(ran)[0])
        shut = self.path("shut")
        os.mkdir(shut, 0)
        self.addCleanup(os.chmod, shut, 0o700)
        self.cache = os.path.join(shut, "cache")
        ran = self.run_demo()
        self.assertEqual(ran.stdout, want)
        self.assertEqual(len(notices(ran)), 1, ran.stderr)
        self.assertIn("it cannot be opened: Permission denied, and its folder cannot be made: Permission denied; weights come from",
                      notices(ran)[0])

    def test_no_space_is_one_notice_and_leaves_nothing(self):
        want = self.run_demo(cache=False).stdout
        limit = 1 << 17  # larger than what goes to standard output, which is a pipe
        ran = subprocess.run([KIME, "score", self.records, "-m", DEMO, "--cache", self.cache], capture_output=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(ran.returncode, 0, ran.stderr.decode())
        self.assertEqual(ran.stdout, want)
        self.assertEqual(len(notices(ran)), 1, ran.stderr)
        self.assertIn("cannot be written: File too large", notices(ran)[0])
        self.assertEqual(os.listdir(self.cache), [])

    def test_another_instruction_set_has_its_own_file(self):
        first = self.run_demo(env={"KIME_CPU_TARGET": "scalar"})
        again = self.run_demo(env={"KIME_CPU_TARGET": "scalar"})
        best = self.run_demo()
        self.assertEqual(first.stdout, again.stdout)
        self.assertEqual(first.stdout, best.stdout)
        self.assertIn(len(os.listdir(self.cache)), (1, 2))

    def test_several_at_once(self):
        want = self.run_demo(cache=False).stdout
        command = [KIME, "score", self.records, "-m", DEMO, "--cache", self.cache, "-q"]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for process in running:
            out, err = process.communicate(timeout=300)
            self.assertEqual((process.returncode, out, err), (0, want, b""))
        self.file()  # one, and nothing beside it
        self.assertIn(b"; weights from the cache\n", self.run_demo("-v").stderr)

    def test_an_ensemble_of_two(self):
        args = ("-m", DEMO, "--emit", "answer", "-v")
        want = self.run_demo(*args, cache=False).stdout
        self.assertEqual(self.run_demo(*args).stdout, want)
        ran = self.run_demo(*args)
        self.assertEqual(ran.stdout, want)
        self.assertIn(b"; weights from the cache\n", ran.stderr)

    @unittest.skipIf(SANITIZED, "timings mean nothing there")
    def test_bench(self):
        args = ("bench", "-m", DEMO, "--seconds", "0.2", "--json", "--cache", self.cache)
        for _ in range(2):
            ran = kime(*args)
            self.assertEqual((ran.returncode, ran.stderr), (0, b""))
            self.file()
        self.flip(-1)
        ran = kime(*args)
        self.assertEqual(ran.returncode, 0)
        self.assertIn(b"its content is damaged", ran.stderr)

    def test_no_name_is_refused(self):
        ran = kime("score", self.records, "-m", DEMO, "--cache", "")
        self.assertEqual(ran.returncode, 2)
        self.assertIn(b"--cache", ran.stderr)


if __name__ == "__main__":
    unittest.main()
