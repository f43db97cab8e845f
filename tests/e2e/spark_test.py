"""scripts/spark_score.py: what a partition's task does, and, where PySpark and Java are (KIME_SPARK_PYTHON names such a Python; it is too
large to be installed for every run of these tests), a real Spark of two executors, one of which is killed."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import unittest

from support import DEMO, KIME, Case, jsonl, kime, lines, read, record

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "spark_score.py")
SPARK_PYTHON = os.environ.get("KIME_SPARK_PYTHON", sys.executable)

spec = importlib.util.spec_from_file_location("spark_score", SCRIPT)
spark_score = importlib.util.module_from_spec(spec)
spec.loader.exec_module(spark_score)


def why_no_spark():
    if shutil.which("java") is None:
        return "there is no Java: apt-get install openjdk-17-jre-headless"
    there = subprocess.run([SPARK_PYTHON, "-c", "import pyspark"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return None if there else "there is no PySpark: pip install pyspark into an environment, and name its Python in KIME_SPARK_PYTHON"


class Task(Case):
    """A partition's task, without Spark."""

    def scored(self, data, before=0, command=(KIME, "score", "-q", "-m", DEMO), count=None, rows=None):
        """What it writes and what it reports of `data`, which stands after `before` other lines."""
        rows = rows or [(line,) for line in data.splitlines()]
        reports = []
        made = b"".join(line + b"\n" for line in spark_score.scored(list(command), before, len(rows) if count is None else count, iter(rows),
                                                                    reports.append, "partition 1 on here"))
        return made, reports

    def test_lines_are_counted_from_the_whole_inputs_start(self):
        records = [record(), record(markers=[99]), record()]
        plain = kime("score", "-q", "-m", DEMO, stdin=b"\n" * 100000 + jsonl(*records)).stdout
        made, (report,) = self.scored(jsonl(*records), before=100000)
        self.assertEqual(made, plain)
        self.assertEqual([each["id"] for each in lines(made)], [100001, 100002, 100003])
        self.assertEqual((report["records"], report["failed"], report["errors"]), (2, 1, {"batch": 1}))
        self.assertEqual(report["examples"], [made.splitlines()[1].decode()])

    def test_errors_in_a_records_own_fields_are_not_counted(self):
        _, (report,) = self.scored(jsonl(record(note={"error": 1}, markers=[99]), record(id={"error": {"kind": "x"}}), {"error": {"kind": "own"}}))
        self.assertEqual(report["errors"], {"batch": 1, "own": 1})

    def test_a_program_that_fails(self):
        for script, message in (("cat >/dev/null; echo no >&2; exit 3", "partition 1 on here: kime score ended with status 3: no"),
                                ("kill -9 $$", "partition 1 on here: kime score was ended by signal 9"),
                                ("exit 2", "partition 1 on here: kime score ended with status 2")):
            with self.assertRaises(spark_score.KimeFailed) as raised:
                self.scored(b"x\n" * 100000, command=("sh", "-c", script))
            self.assertEqual(str(raised.exception), message)

    def test_an_input_that_has_changed(self):
        with self.assertRaisesRegex(spark_score.KimeFailed, "2 lines came, where there were 3 at first: the input has changed"):
            self.scored(jsonl(record(), record()), count=3)

    def test_an_input_that_breaks_off_is_not_its_end(self):
        def rows():
            yield (jsonl(record())[:-1],)
            raise ConnectionError("gone")

        with self.assertRaisesRegex(ConnectionError, "gone"):
            self.scored(b"", rows=rows(), count=1)

    def test_a_task_that_ends_before_its_time_leaves_no_process(self):
        task = spark_score.scored(["sh", "-c", "echo $$; exec cat"], 0, 1, iter([(b"x",)]), self.fail, "here")
        process = int(next(task))
        task.close()
        self.assertFalse(os.path.exists(f"/proc/{process}"))

    def test_a_checkpoint_is_unpacked_once(self):
        archive = self.path("sent.tar")
        spark_score.pack(DEMO, archive)
        folders = []
        threads = [threading.Thread(target=lambda: folders.append(spark_score.unpacked(archive))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(folders, [archive + ".d"] * 4)
        self.assertEqual(read(archive + ".d", "encoder", "config.json"), read(DEMO, "encoder", "config.json"))

    def test_a_checkpoint_that_cannot_be_unpacked(self):
        with self.assertRaises(tarfile.ReadError):
            spark_score.unpacked(self.path("sent.tar", b"no archive"))

    def test_partitions_in_order(self):
        self.assertEqual(spark_score.placed([(2, 1, 1, 0, 0, 5), (0, 0, 0, 0, 0, 3), (1, 0, 0, 64, 64, 4)]), {0: (0, 3), 1: (3, 4), 2: (7, 5)})
        for found in ([(0, 0, 0, 64, 64, 1), (1, 0, 0, 0, 0, 1)], [(0, 0, 1, 0, 0, 2)], [(0, 0, 0, 0, 64, 2)]):
            with self.assertRaisesRegex(spark_score.Failed, "in another order than it stands in"):
                spark_score.placed(found)

    def test_what_spark_says_of_failures(self):
        java = "An error occurred while calling o1.saveAsTextFile.\n: org.apache.spark.SparkException: Job aborted.\n\tat x\n"
        for text, told in ((java + "spark_score.KimeFailed: partition 1: x\n\tat y", (3, "partition 1: x")),
                           (java + "Caused by: a.FileAlreadyExistsException: Output directory /o exists\n", (2, "Caused by: a.FileAlreadyExistsException: Output directory /o exists")),
                           ("[PATH_NOT_FOUND] Path does not exist: /x. more", (2, "[PATH_NOT_FOUND] Path does not exist: /x. more")),
                           (java + "Traceback\nFileNotFoundError: [Errno 2] kime\n", (3, "FileNotFoundError: [Errno 2] kime")),
                           ("\nno one knows", (3, "no one knows")), ("", (3, "Exception"))):
            self.assertEqual(spark_score.reason(Exception(text)), told)


class Usage(Case):
    def refused(self, *args, python=(sys.executable,), env=None):
        ran = subprocess.run([*python, "-B", SCRIPT, *args], capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
        self.assertEqual((ran.returncode, ran.stdout), (2, ""), ran.stderr)
        return ran.stderr

    def test_arguments(self):
        self.assertIn("which checkpoint?", self.refused("in", "-o", "out", env={"KIME_MODEL": ""}))
        self.assertIn("-o/--output", self.refused("in", "-m", DEMO))
        self.assertIn("--partition-bytes is 1 at least", self.refused("in", "-m", DEMO, "-o", "out", "--partition-bytes", "0"))
        for option, why in (("--resume", "Spark does that"), ("--trace=x", "writes a file"), ("--stats", "names what this program names")):
            self.assertRegex(self.refused("in", "-m", DEMO, "-o", "out", "--", option), f"{option} of kime score does not go here: .*{why}")
        self.assertIn("--on-error stop does not go here", self.refused("in", "-m", DEMO, "-o", "out", "--", "--on-error", "stop"))

    def test_what_kime_refuses_it_says_before_the_job(self):
        self.assertIn("/nowhere", self.refused("in", "-m", "/nowhere", "-o", "out", "--kime", KIME))
        self.assertIn("--emit", self.refused("in", "-m", DEMO, "-o", "out", "--kime", KIME, "--", "--emit", "x"))
        self.assertIn("cannot run /nowhere: No such file", self.refused("in", "-m", DEMO, "-o", "out", "--kime", "/nowhere"))

    def test_without_pyspark(self):
        said = self.refused("in", "-m", DEMO, "-o", "out", "--kime", KIME, python=(sys.executable, "-I", "-S"))
        self.assertIn("the Python package pyspark is missing", said)
        self.assertIn("-m pip install pyspark", said)


# Stands in for kime in the tasks. The first one it ends when all is written but the last word; the second takes its executor along.
KILLED = """#!/bin/sh
case " $* " in *" --stats "*) ;; *) exec {kime} "$@" ;; esac
{kime} "$@"
status=$?
parent() {{ awk '/^PPid:/ {{ print $2 }}' "/proc/$1/status"; }}
if mkdir {state}/program 2>/dev/null; then kill -9 $$; fi
if mkdir {state}/executor 2>/dev/null; then kill -9 "$(parent "$(parent "$PPID")")"; fi
exit $status
"""


class Spark(Case):
    def run_spark(self, *args):
        env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": self.path("local"),
               "PYSPARK_PYTHON": SPARK_PYTHON, "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false pyspark-shell"}
        return subprocess.run([SPARK_PYTHON, "-B", SCRIPT, "-m", DEMO, *args], capture_output=True, text=True, env=env, timeout=900, check=False)

    def test_two_executors_one_of_which_is_killed(self):
        if why_no_spark():
            self.skipTest(why_no_spark())
        tickets = read(DEMO, "records.jsonl").splitlines(keepends=True)
        odd = [jsonl(record()), jsonl(record(markers=[99])), b'{"id":"\xff","ids":[1]}\n', b'{"ids":[1,2],\r"markers":[1],"qtype":1}\r\n', b"\n \n", b"no\n"]
        one = self.path("b.jsonl", b"\xef\xbb\xbf" + b"".join(line + (odd[i // 25 % 6] if i % 25 == 0 else b"") for i, line in enumerate(tickets[:250])))
        two = self.path("a.jsonl", b"".join(tickets[250:])[:-1])  # no line end at the end
        plain = kime("score", "-q", "-m", DEMO, "--emit", "answer", stdin=read(one) + read(two))
        os.mkdir(self.path("state"))
        stub = self.path("stub", KILLED.format(kime=KIME, state=self.path("state")).encode())
        os.chmod(stub, 0o755)
        output, stats = self.path("scores"), self.path("stats.json")
        ran = self.run_spark("--master", "local-cluster[2,1,1024]", "--kime", stub, "--partition-bytes", "40000", one, two, "-o", output, "--stats", stats,
                             "--", "--emit", "answer")
        self.assertEqual(ran.returncode, 1, ran.stderr)
        self.assertEqual(sorted(os.listdir(self.path("state"))), ["executor", "program"])
        parts = sorted(name for name in os.listdir(output) if name.startswith("part-"))
        self.assertGreater(len(parts), 4)
        self.assertEqual(b"".join(read(output, name) for name in parts), plain.stdout)
        (summary,) = [spark_score.json.loads(read(stats))]
        scores = lines(plain.stdout)
        failed = [each for each in scores if "error" in each]
        self.assertEqual((summary["records"], summary["failed"]), (len(scores) - len(failed), len(failed)))
        self.assertEqual(summary["errors"], {kind: sum(each["error"]["kind"] == kind for each in failed) for kind in ("batch", "json")})
        self.assertEqual([each["partition"] for each in summary["partitions"]], list(range(len(parts))))
        self.assertIn(f"{len(failed)} records failed (batch ", ran.stderr)

        again = self.run_spark("--master", "local[1]", "--kime", KIME, two, "-o", output)
        self.assertEqual(again.returncode, 2, again.stderr)
        self.assertRegex(again.stderr, "spark_score: .*FileAlreadyExistsException.*scores")


if __name__ == "__main__":
    unittest.main()
