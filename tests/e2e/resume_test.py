"""kime score -o, --resume and --force: an output is whole or not there, and a job that was killed goes on."""
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import unittest

from support import DEMO, KIME, SANITIZED, TESTDATA, Case, jsonl, kime, lines, read

SHIM = os.environ["KIME_KILL_SHIM"]
GOES_ON = "the same command with --resume goes on"


class OutputCase(Case):
    def setUp(self):
        super().setUp()
        demo = read(DEMO, "records.jsonl").splitlines(keepends=True)
        self.records = self.path("records.jsonl", b"".join(demo[:60]) + b"not JSON\n\n" + b"".join(demo[60:200]))
        self.out = self.path("out.jsonl")

    def score(self, *args, inputs=None, status=1, model=DEMO, env=None, **more):
        ran = kime("score", "-m", model, *(inputs or [self.records]), "-o", self.out, *args, env=env, **more)
        self.assertEqual(ran.returncode, status, ran.stderr.decode())
        self.assertEqual(ran.stdout, b"")
        return ran.stderr.decode()

    def whole(self, *args, inputs=None):
        return kime("score", "-m", DEMO, *(inputs or [self.records]), *args).stdout

    def there(self):
        return sorted(name[len("out.jsonl"):] for name in os.listdir(self.folder.name) if name.startswith("out.jsonl"))

    def shim(self, call, at=1, when="inside", prefix=None, error=None):
        env = {"LD_PRELOAD": SHIM, "KIME_KILL_PREFIX": prefix or self.out, "KIME_KILL_CALL": call, "KIME_KILL_AT": str(at), "KIME_KILL_WHEN": when}
        return env if error is None else {**env, "KIME_KILL_ERROR": str(error)}

    def killed(self, *args, call="rename", at=2, when="before", **more):
        """A job that was killed; by default, when all is written but its last words are not in the journal."""
        self.score(*args, status=-signal.SIGKILL, env=self.shim(call, at, when), **more)

    def journal(self):
        return json.loads(read(self.out + ".journal").splitlines()[0])

    def finish(self, want=None, status=1, *args, **more):
        errors = self.score("--resume", *args, status=status, **more)
        self.assertEqual(read(self.out), self.whole() if want is None else want)
        self.assertEqual(self.there(), [""])
        return errors


@unittest.skipIf(SANITIZED, "the sanitizers' libraries must be loaded first, and the preloaded one is")
class Killed(OutputCase):
    def test_inside_the_first_write_of_an_output(self):
        self.score(status=-signal.SIGKILL, env=self.shim("write", 1, prefix=self.out + ".partial"))
        torn = read(self.out + ".partial")
        self.assertGreater(len(torn), 0)
        self.assertTrue(self.whole().startswith(torn))
        self.assertIn("goes on after 0 records", self.finish())

    def test_inside_the_first_write_of_a_journal(self):
        self.killed(call="write", at=1)
        self.assertEqual(self.there(), [".journal.new", ".partial"])
        self.assertNotIn("goes on", self.finish())

    def test_before_the_journal_says_that_the_job_is_complete(self):
        self.killed()
        self.assertEqual(self.there(), [".journal", ".journal.new", ".partial"])
        self.finish()

    def test_when_the_journal_says_so(self):
        self.killed(call="rename", at=3, when="before")
        self.assertEqual(self.there(), [".journal", ".partial"])
        self.assertIn("all 201 records are there already", self.finish())

    def test_after_the_output_has_its_name(self):
        self.killed(call="rename", at=3, when="after")
        self.assertEqual(self.there(), ["", ".journal"])
        errors = self.finish()
        self.assertIn(self.out + ": all 201 records are there already", errors)
        self.assertIn("200 records scored, 200 before and 0", errors)
        self.assertIn("1 record failed", errors)

    def test_the_status_and_the_counts_are_those_of_the_whole_job(self):
        stats = self.path("stats.json")
        self.killed("--sync-every", "0.001", at=3)
        before = self.journal()["state"]
        self.assertIn(f"goes on after {before['scored'] + before['failed']} record", self.finish(None, 1, "--stats", stats))
        with open(stats, encoding="utf-8") as told:
            counts = json.load(told)
        self.assertEqual((counts["records"], counts["failed"], counts["records_before"]), (200, 1, before["scored"]))

    def test_a_job_that_stops_at_an_error_does_not_go_past_it(self):
        want = self.whole("--on-error", "stop")
        self.killed("--on-error", "stop", call="rename", at=3)
        self.assertEqual(self.journal()["state"]["failed"], 1)
        self.finish(want, 1, "--on-error", "stop")

    def test_a_packed_input_and_lines_without_ids(self):
        some = [{key: value for key, value in each.items() if key != "id"} for each in lines(read(self.records).replace(b"not JSON\n\n", b""))]
        inputs = [self.path("a.jsonl", jsonl(*some[:90])), self.path("b.jsonl.gz", gzipped(jsonl(*some)))]
        want = self.whole(inputs=inputs)
        for at in (1, 2, 3, 3):
            with self.subTest(at):
                self.killed("--resume", "--sync-every", "0.001", inputs=inputs, at=at)
        self.finish(want, 0, inputs=inputs)

    def test_a_shard_before_its_first_record(self):
        want = self.whole("--shard", "2/3")
        self.killed("--shard", "2/3", call="truncate", at=1)
        self.finish(want, 0, "--shard", "2/3")


def gzipped(data):
    return subprocess.run(["gzip", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


class RefusedCase(OutputCase):
    """What is refused changes nothing."""

    def refused(self, *args, words=(), **more):
        before = {name: read(self.folder.name, name) for name in os.listdir(self.folder.name) if os.path.isfile(self.path(name))}
        errors = self.score(*args, status=2, **more)
        for word in words:
            self.assertIn(word, errors)
        after = {name: read(self.folder.name, name) for name in os.listdir(self.folder.name) if os.path.isfile(self.path(name))}
        self.assertEqual(before, after)
        return errors


class Refused(RefusedCase):
    def test_an_output_that_is_there(self):
        self.score()
        self.refused(words=[self.out + ": is there already; --force replaces it"])
        self.refused("--resume", words=["nothing to go on with"])
        self.score("--force", "--emit", "probs")
        self.assertEqual(read(self.out), self.whole("--emit", "probs"))

    def test_an_output_that_is_an_input(self):
        os.link(self.records, self.out)
        self.refused("--force", words=[self.out + ": is one of the inputs"])

    def test_options_that_need_others(self):
        for args, word in ((("--resume",), "--resume is for an output file: name it with -o"), (("--force",), "--force is for an output file"),
                           (("--sync-every", "1"), "--sync-every requires --output"),
                           (("-o", ""), "-o: the file's name is empty"), (("-o", "-"), "-o -: for standard output leave -o out"),
                           (("-o", self.path("no/out")), "No such file or directory"), (("--shard", ""), "'' is no shard")):
            ran = kime("score", "-m", DEMO, self.records, *args)
            self.assertEqual((ran.returncode, ran.stdout), (2, b""))
            self.assertIn(word, ran.stderr.decode())

    def test_standard_input_and_pipes_cannot_go_on(self):
        self.refused("--resume", inputs=["-"], words=["--resume: standard input: is no regular file and cannot be read twice"])
        self.score(inputs=["-"], stdin=read(self.records))
        self.assertEqual(read(self.out), self.whole())

    def test_another_output_of_this_name_at_work(self):
        process = subprocess.Popen([KIME, "score", "-m", DEMO, "-o", self.out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        with process.stdin:
            while not os.path.exists(self.out + ".journal"):
                self.assertIsNone(process.poll())
            for args in ((), ("--force",), ("--resume",)):
                self.refused(*args, words=[f"{self.out}: process {process.pid} writes it; one job an output"])
            process.stdin.write(read(self.records))
        self.assertEqual(process.wait(60), 1)
        self.assertEqual(read(self.out), self.whole())


@unittest.skipIf(SANITIZED, "the sanitizers' libraries must be loaded first, and the preloaded one is")
class OtherJobs(RefusedCase):
    def setUp(self):
        super().setUp()
        self.killed("--sync-every", "0.001", at=3)  # some of the output is written, and the journal says so

    def differs(self, *args, field, **more):
        errors = self.refused("--resume", *args, words=[self.out + ": cannot go on as another job than it was begun as:", "(--force without --resume"], **more)
        self.assertEqual([line.split(":")[0].strip() for line in errors.splitlines() if line.startswith("  ")], [field] if isinstance(field, str) else field)
        return errors

    def test_options(self):
        self.assertIn("  --emit: was logits, is all\n", self.differs("--emit", "all", field="--emit"))
        self.assertIn("  precision: was f32, is bf16\n", self.differs("--precision", "bf16", field="precision"))
        self.differs("--keep", field="--keep")
        self.differs("--on-error", "skip", field="--on-error")
        self.differs("--max-line", "100000", field="--max-line")
        self.assertIn("  --shard: was 1/1, is 1/2\n", self.differs("--shard", "1/2", field="--shard"))
        self.differs("--buckets", self.path("table", b"compat 4096 64 4096\n"), field="--buckets, digest")
        self.differs("--emit", "all", "--keep", field=["--emit", "--keep"])
        self.finish()  # and none of that has done any harm

    def test_checkpoints(self):
        for file in ("rl_agent_config.json", "model.safetensors"):
            model = self.path(file)
            shutil.copytree(DEMO, model)
            changed = bytearray(read(model, file))
            if file.endswith(".json"):
                changed += b" "
            else:
                changed[-1] ^= 1
            with open(os.path.join(model, file), "wb") as out:
                out.write(changed)
            self.differs(model=model, field="checkpoint's digest")
        moved = self.path("moved")
        shutil.copytree(DEMO, moved)
        self.score("--resume", model=moved)
        self.assertEqual(read(self.out), self.whole())

    def test_inputs(self):
        whole, data, times = self.whole(), read(self.records), os.stat(self.records)
        with open(self.records, "ab") as out:
            out.write(b"\n")
        self.differs(field=["input 1 bytes", "input 1 modified", "input 1 first and last 64 KiB"])
        with open(self.records, "wb") as out:
            out.write(data)
        self.differs(field="input 1 modified")
        os.utime(self.records, ns=(times.st_atime_ns, times.st_mtime_ns))
        errors = self.refused("--resume", inputs=[self.records, self.records])
        self.assertIn("  inputs: was 1, is 2\n", errors)
        self.finish(whole)

    def test_side_files_that_are_not_what_they_were(self):
        journal, partial = read(self.out + ".journal"), read(self.out + ".partial")

        def lay(name, data, *words):
            with open(self.out + name, "wb") as out:
                out.write(data)
            self.refused("--resume", words=words)
        lay(".journal", journal.replace(b'{"kime_journal":1', b'{"kime_journal":2'), "is a journal of format 2; this kime reads format 1")
        lay(".journal", journal[:-10], "is no journal of kime's, or damaged")
        lay(".journal", b"", "is no journal of kime's, or damaged")
        lay(".journal", os.urandom(1000), "is no journal of kime's, or damaged")
        with open(self.out + ".journal", "wb") as out:
            out.write(journal)
        end = self.journal()["state"]["output"]
        self.assertGreater(end, 0)
        lay(".partial", partial[:end - 1], f"has {end - 1} bytes, but ", f"speaks of {end}")
        lay(".partial", b"garbage".ljust(len(partial)), "it has been changed")
        os.remove(self.out + ".journal")
        self.refused("--resume", words=[".partial: cannot go on: ", ".journal is missing"])
        self.refused(words=[".partial: holds a job that did not end; --resume goes on with it, --force begins anew"])
        self.score("--force")
        self.assertEqual(read(self.out), self.whole())
        self.assertEqual(self.there(), [""])

    def test_garbage_after_the_journals_place_is_cut_off(self):
        with open(self.out + ".partial", "ab") as out:
            out.write(os.urandom(1000))
        self.finish()


class Ended(OutputCase):
    def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(self):
        for sent, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(sent):
                process = subprocess.Popen([KIME, "score", "-m", DEMO, *[self.records] * 60, "-o", self.out, "--resume"], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                while not os.path.exists(self.out + ".partial") or os.path.getsize(self.out + ".partial") == 0:
                    self.assertIsNone(process.poll())
                process.send_signal(sent)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, status, errors)
                self.assertIn(f"what is done is in {self.out}.partial; {GOES_ON}".encode(), errors)
                self.assertEqual(self.there(), [".journal", ".partial"])
                self.assertEqual(os.path.getsize(self.out + ".partial"), self.journal()["state"]["output"])
                os.remove(self.out + ".partial")
                os.remove(self.out + ".journal")

    def test_an_input_that_fails_keeps_what_is_done(self):
        packed = gzipped(read(self.records))
        bad = self.path("bad.gz", packed[:-20])
        self.assertIn("truncated", self.score(inputs=[bad], status=3))
        self.assertEqual(self.there(), [".journal", ".partial"])

    def limited(self, *args, size, **more):
        ran = subprocess.run([KIME, "score", "-m", DEMO, self.records, "-o", self.out, *args], capture_output=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), **more)
        return ran.returncode, ran.stderr.decode()

    def test_a_file_past_its_limit_is_a_job_lost_that_goes_on(self):
        status, errors = self.limited(size=7000)
        self.assertEqual(status, 3)
        self.assertIn(self.out + ".partial: File too large", errors)
        self.assertIn(GOES_ON, errors)
        self.finish()

    def test_no_room_for_a_first_journal(self):
        status, errors = self.limited(size=10)
        self.assertEqual(status, 2)
        self.assertIn(self.out + ".journal.new: File too large", errors)
        self.assertIn(self.there(), ([".partial"], []))
        self.finish()

    @unittest.skipIf(SANITIZED, "the sanitizers' libraries must be loaded first, and the preloaded one is")
    def test_a_disk_that_fills_at_any_moment(self):
        for call, prefix, at, where in (("write", ".partial", 3, ".partial"), ("sync", ".partial", 1, ".partial"), ("write", ".journal", 2, ".journal.new"),
                                        ("sync", ".journal", 2, ".journal.new"), ("rename", ".journal", 2, ".journal"), ("rename", ".partial", 1, "")):
            with self.subTest((call, prefix)):
                errors = self.score(status=3, env=self.shim(call, at, prefix=self.out + prefix, error=errno.ENOSPC))
                self.assertIn(f"{self.out}{where}: No space left on device", errors)
                self.assertEqual(self.there(), [".journal", ".partial"])
                self.finish()
                os.remove(self.out)


@unittest.skipIf(SANITIZED, "the sanitizers' libraries must be loaded first, and the preloaded one is")
class Classes(OutputCase):
    """With a library that acts as a CUDA driver: devices of two classes."""
    MODEL = os.path.join(TESTDATA, "parity", "nohead-f32")
    FAKE = {"KIME_CUDA_DRIVER": os.environ["KIME_FAKE_LIBCUDA"], "KIME_CUBLASLT": os.environ["KIME_FAKE_CUBLASLT"]}
    NOTICE = "devices of 2 classes work"

    def setUp(self):
        super().setUp()
        self.records = self.path("few.jsonl", b"".join(read(self.MODEL, "records.jsonl").splitlines(keepends=True)[:6]))

    def score(self, *args, env=None, **more):
        return super().score(*args, model=self.MODEL, env={**self.FAKE, **(env or {})}, **more)

    def test_resume_and_shards_keep_to_one(self):
        self.assertIn(self.NOTICE, self.score(status=0))
        self.assertNotIn(self.NOTICE, self.score("--resume", "--force", status=0))
        self.assertNotIn(self.NOTICE, self.score("--shard", "1/1", "--force", status=0))

    def test_a_job_that_began_on_several_goes_on_on_them(self):
        self.killed("--precision", "f32")
        self.assertIn(" + ", self.journal()["job"]["classes of devices"])
        self.assertIn("classes of devices: was ", self.score("--precision", "f32", "--devices", "cpu", "--resume", status=2))
        self.assertIn(self.NOTICE, self.score("--precision", "f32", "--resume", status=0))
        self.assertEqual(len(read(self.out).splitlines()), 6)


if __name__ == "__main__":
    unittest.main()
