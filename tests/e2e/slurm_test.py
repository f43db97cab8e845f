"""scripts/slurm_array.sh: what a task of an array runs, by a stub of kime that records its arguments, and what kime makes of it."""
import os
import shlex
import subprocess
import unittest

from support import DEMO, KIME, Case, kime, read

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "slurm_array.sh")
STUB = """#!/bin/sh
printf '%s\\n' "$@" > {log}
exit 1
"""


def array(task, first=1, last=8, **more):
    return {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_MIN": str(first), "SLURM_ARRAY_TASK_MAX": str(last),
            "SLURM_ARRAY_TASK_COUNT": str(last - first + 1), **more}


class SlurmArray(Case):
    def task(self, *args, env=None, status=0):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "KIME", "SHARES", "DRY_RUN"))}
        ran = subprocess.run([SCRIPT, *args], capture_output=True, text=True, check=False, env={**clean, **(env or {})})
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran

    def stub(self):
        path = self.path("kime", STUB.format(log=self.path("arguments")).encode())
        os.chmod(path, 0o755)
        return path

    def test_what_it_runs(self):
        output = self.path("the scores")
        ran = self.task("a b.jsonl", "c.jsonl", "-m", "model", "-o", output, "--", "--emit", "answer",
                        env=array(3, KIME=self.stub(), SLURM_CPUS_PER_TASK="16"), status=1)  # the stub's status is its own
        self.assertEqual(ran.stdout, "")
        self.assertEqual(read(self.path("arguments")).decode().splitlines(),
                         ["score", "a b.jsonl", "c.jsonl", "-m", "model", "--shard", "3/8", "-o", f"{output}/part-00003-of-00008.jsonl", "--resume",
                          "--threads", "16", "--emit", "answer"])
        self.assertTrue(os.path.isdir(output))

    def test_a_dry_run(self):
        ran = self.task("a b.jsonl", "-o", "out", env=array(8, KIME_MODEL="model", DRY_RUN="1"))
        self.assertEqual(shlex.split(ran.stdout), ["kime", "score", "a b.jsonl", "-m", "model", "--shard", "8/8", "-o", "out/part-00008-of-00008.jsonl",
                                                   "--resume", "--threads", "1"])
        self.assertFalse(os.path.exists("out"))

    def test_a_task_that_has_ended_is_not_done_again(self):
        os.mkdir(self.path("out"))
        self.path("out/part-00002-of-00008.jsonl", b"")
        ran = self.task("in", "-m", "model", "-o", self.path("out"), env=array(2, KIME=self.stub()))
        self.assertIn("has ended before", ran.stdout)
        self.assertFalse(os.path.exists(self.path("arguments")))

    def test_some_tasks_again(self):
        env = array(5, first=5, last=6, DRY_RUN="1")
        args = ("in", "-m", "model", "-o", "out")
        self.assertIn("set SHARES=N", self.task(*args, env=env, status=2).stderr)
        self.assertIn("--shard 5/8", self.task(*args, env={**env, "SHARES": "8"}).stdout)
        self.assertIn("there is no share 5 of 4", self.task(*args, env={**env, "SHARES": "4"}, status=2).stderr)

    def test_wrong_usage(self):
        args = ("in", "-m", "model", "-o", "out")
        for these, env, message in ((args, {}, "this is a task of an array"),
                                    (args[1:], array(1), "which records?"),
                                    (args[:1] + args[3:], array(1), "which checkpoint?"),
                                    (args[:3], array(1), "where to?"),
                                    (args[:4], array(1), "-o needs a value"),
                                    ((*args, "--emit"), array(1), "unknown option '--emit'; options of kime score go after --"),
                                    (args, array(3, last=5, SLURM_ARRAY_TASK_COUNT="3"), "the array has 3 tasks from 1 to 5, not from 1 to 3")):
            self.assertIn(f"slurm_array: {message}", self.task(*these, env=env, status=2).stderr)

    def test_the_parts_are_the_whole(self):
        records, output = os.path.join(DEMO, "records.jsonl"), self.path("out")
        for task in (1, 2, 3):
            for _ in range(2):  # the second time it is there
                self.task(records, "-m", DEMO, "-o", output, "--", "-q", env=array(task, last=3, KIME=KIME))
        parts = b"".join(read(output, name) for name in sorted(os.listdir(output)))
        self.assertEqual(parts, kime("score", "-q", records, "-m", DEMO).stdout)


if __name__ == "__main__":
    unittest.main()
