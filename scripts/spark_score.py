#!/usr/bin/env python3
"""Scores records on Apache Spark: each partition of the input is piped through `kime score` on an executor.

    spark-submit --master spark://host:7077 scripts/spark_score.py -m checkpoint/ --kime build/release/kime hdfs:///records -o hdfs:///scores
    venv/bin/python scripts/spark_score.py --master 'local[4]' -m checkpoint/ records.jsonl -o scores/ -- --emit answer --keep

Inputs are what Spark reads: files, folders and patterns on any file system that it knows, plain or compressed. The output is a folder of
part files; one after the other (`cat scores/part-*`) they are, byte for byte, what `cat INPUT... | kime score` writes: lines are counted
through all inputs, in the order in which these are named. (Of each file a byte-order mark is left out, and a line end that is missing at
its end is made up for.) All after `--` are options of `kime score`.

The checkpoint, and the program that --kime names, are sent to each executor once (addFile). Without --kime the executors' PATH has it; the
libraries that it is linked with (see scripts/setup) must be there. A task that fails or is lost is done again by Spark and leaves nothing
behind. Give Spark `spark.task.cpus`: so many threads each kime has. Bits are the same on all CPUs; among GPUs, of one model.

Exit status: 0 all scored; 1 some records failed, and their lines say why; 2 wrong usage, or an unusable model or input; 3 the job was lost.
"""
import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

NAME = "spark_score"
DOES_NOT_GO = {
    "it names what this program names": ("-m", "--model", "-o", "--output", "--stats", "--threads"),
    "Spark does that": ("--resume", "--force", "--sync-every", "--shard", "--progress"),
    "it writes a file on an executor": ("--trace", "--cache"),
    "it reads a file that executors do not have": ("--buckets",),
    "it prints to an executor's standard error": ("--labels", "-v", "--verbose", "--help", "-h"),
}
SENT_KIME = "sent-kime"
SHOWN_ERRORS = 3  # of each partition
NEWLINES = b"\n" * (1 << 16)


class Failed(Exception):
    """The end of the job: an exit status and why."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


# ---- on executors -------------------------------------------------------------------------------------------------------------------


class KimeFailed(Exception):
    """A `kime score` that did not end as it should: Spark does its task again, elsewhere perhaps."""


def unpacked(archive):
    """The folder that a checkpoint's archive holds, unpacked by the first task of an executor that needs it."""
    folder = archive + ".d"
    if not os.path.isdir(folder):
        own = tempfile.mkdtemp(dir=os.path.dirname(archive))
        with tarfile.open(archive) as packed:
            packed.extractall(own, filter="data") if hasattr(tarfile, "data_filter") else packed.extractall(own)
        try:
            os.rename(own, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another task was first, and its folder is as good
                raise
    return folder


class Feeder(threading.Thread):
    """Writes a partition's lines, behind as many blank ones as there are lines before it, so that kime counts as in the whole."""

    def __init__(self, sink, before, rows):
        super().__init__(daemon=True)
        self._sink, self._before, self._rows = sink, before, rows
        self.count, self.failure = 0, None

    def run(self):
        try:
            with self._sink as sink:
                blank = self._before
                while blank > 0:
                    sink.write(NEWLINES[:blank])
                    blank -= len(NEWLINES)
                for row in self._rows:
                    sink.write(row[0])
                    sink.write(b"\n")
                    self.count += 1
        except BrokenPipeError:
            pass  # kime has ended, and its status says why
        except BaseException as error:  # of what is read: it must not look like the end
            self.failure = error


class Tally:
    """What one partition came to."""

    def __init__(self):
        self.started = time.monotonic()
        self.kinds, self.examples = {}, []

    def see(self, line):
        if b'"error":' not in line:
            return
        error = json.loads(line).get("error")
        if isinstance(error, dict):
            kind = error.get("kind", "unknown")
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if len(self.examples) < SHOWN_ERRORS:
                self.examples.append(line.decode().removesuffix("\n"))

    def entry(self, stats):
        return {"host": socket.gethostname(), "seconds": time.monotonic() - self.started, "records": stats["records"], "failed": stats["failed"],
                "tokens": stats["tokens"], "errors": self.kinds, "examples": self.examples, "devices": stats["devices"]}


def scored(command, before, count, rows, report, where):
    """The lines that `command`, a `kime score`, makes of a partition's rows, of which there are `count`, after `before` others."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        with open(os.path.join(folder, "said"), "w+b") as said:
            process = subprocess.Popen([*command, "--stats", stats], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
            try:
                feeder = Feeder(process.stdin, before, rows)
                feeder.start()
                for line in process.stdout:
                    tally.see(line)
                    yield line.removesuffix(b"\n")
                status = process.wait()
                feeder.join()
            finally:
                process.kill()  # where the task ends before its time
                process.wait()
                process.stdout.close()
            said.seek(0)
            last = said.read()[-1000:].decode(errors="replace").strip()
        if feeder.failure:
            raise feeder.failure
        if status not in (0, 1):
            how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            raise KimeFailed(f"{where}: kime score {how}{': ' + last if last else ''}")
        if feeder.count != count:
            raise KimeFailed(f"{where}: {feeder.count} lines came, where there were {count} at first: the input has changed")
        with open(stats, encoding="utf-8") as source:
            report(tally.entry(json.load(source)))


def make_task(kime, models, options, threads, parts, tallies):
    """What Spark does with each partition. `models`: names of what was sent; `kime`: so too, or a program of the executors' PATH."""

    def task(index, rows):
        from pyspark import SparkFiles
        before, count = parts.get(index, (0, 0))
        if not count:
            return iter(())
        command = [SparkFiles.get(kime) if kime == SENT_KIME else kime, "score", "-q", "--threads", str(threads)]
        for model in models:
            command += ["-m", unpacked(SparkFiles.get(model))]
        return scored([*command, *options], before, count, rows, lambda entry: tallies.add({index: entry}),
                      f"partition {index} on {socket.gethostname()}")

    return task


# ---- on the driver ------------------------------------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="what Spark reads: a file, folder or pattern, with or without hdfs:// and the like")
    parser.add_argument("-m", "--model", metavar="DIR", action="append", help="the checkpoint, on this machine (default: $KIME_MODEL)")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="a folder that is not there yet, where Spark writes")
    parser.add_argument("--kime", metavar="FILE", help="the program, on this machine, to send to the executors (default: kime in their PATH)")
    parser.add_argument("--master", help="a Spark master (default: what spark-submit says)")
    parser.add_argument("--partition-bytes", metavar="N", type=int, help="input of a task (default: Spark's, 128 MiB)")
    parser.add_argument("--stats", metavar="FILE", help="write what each partition came to, as one JSON document")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parsed = parser.parse_args(arguments[:cut])
    parsed.options = arguments[cut + 1:]
    parsed.model = parsed.model or [each for each in [os.environ.get("KIME_MODEL")] if each]
    if not parsed.model:
        parser.error("which checkpoint? Say -m DIR or set KIME_MODEL")
    if parsed.partition_bytes is not None and parsed.partition_bytes < 1:
        parser.error("--partition-bytes is 1 at least")
    for option in parsed.options:
        for reason, names in DOES_NOT_GO.items():
            if option.split("=", 1)[0] in names:
                parser.error(f"{option} of kime score does not go here: {reason}")
    if "stop" in parsed.options or "--on-error=stop" in parsed.options:
        parser.error("--on-error stop does not go here: partitions do not know of each other")
    return parsed


def check(parsed):
    """Runs kime without a record where this machine can: before a cluster is busy, it says what is wrong."""
    command = [parsed.kime or "kime", "score", "-q", *(part for model in parsed.model for part in ("-m", model)), *parsed.options]
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        if parsed.kime:
            raise Failed(2, f"cannot run {parsed.kime}: {error.strerror}") from error
        return  # the executors may have it
    if ran.returncode != 0:
        raise Failed(2, ran.stderr.strip() or f"kime score ended with status {ran.returncode}")


def pack(model, path):
    """A checkpoint as one file."""
    with tarfile.open(path, "w", dereference=True) as archive:
        for name in sorted(os.listdir(model)):
            archive.add(os.path.join(model, name), name)


def send(context, parsed, folder):
    """Sends what executors need, and gives the names by which they find it."""
    models = []
    for number, model in enumerate(parsed.model):
        models.append(f"sent-checkpoint-{number}.tar")
        pack(model, os.path.join(folder, models[-1]))
        context.addFile(os.path.join(folder, models[-1]))
    if not parsed.kime:
        return "kime", models
    shutil.copy(parsed.kime, os.path.join(folder, SENT_KIME))
    context.addFile(os.path.join(folder, SENT_KIME))
    return SENT_KIME, models


def read(spark, inputs):
    """All lines as bytes, in order, with the file and where in it their partition begins. Spark packs small files together, by size: so
    that order is kept each file is read alone."""
    from pyspark.sql import functions
    files = []
    for path in inputs:
        found = spark.read.text(path).inputFiles()
        files += sorted(found)
    lines = None
    for number, path in enumerate(files):
        each = spark.read.option("lineSep", "\n").text(path).select(
            functions.col("value").cast("binary").alias("value"), functions.col("_metadata.file_block_start").alias("start"),
            functions.lit(number).alias("file"))
        lines = each if lines is None else lines.unionAll(each)
    return lines


def partitions(lines):
    """For each partition that has lines: how many there are before it, and in it."""
    from pyspark.sql import functions
    return placed(lines.groupBy(functions.spark_partition_id().alias("index")).agg(
        functions.min("file"), functions.max("file"), functions.min("start"), functions.max("start"), functions.count("*")).collect())


def placed(found):
    """The same of rows of a partition's index, its first and last file, first and last start, and lines; if they are in order."""
    parts, before, last = {}, 0, (-1, -1)
    for index, first_file, last_file, first_start, last_start, count in sorted(found):
        place = (first_file, first_start)
        if place != (last_file, last_start) or place <= last:
            raise Failed(3, f"Spark reads the input in another order than it stands in: partition {index} has files {first_file} to {last_file} "
                            f"from byte {first_start} to {last_start}")
        parts[index] = (before, count)
        before += count
        last = place
    return parts


def tally_of(context):
    """An accumulator of partitions' entries. A task that is done twice gives its entry twice, which is then the same one."""
    from pyspark import AccumulatorParam

    class Entries(AccumulatorParam):
        def zero(self, value):
            return {}

        def addInPlace(self, one, other):  # noqa: N802, Spark's name
            one.update(other)
            return one

    return context.accumulator({}, Entries())


def run_on(spark, parsed, folder):
    context = spark.sparkContext
    if parsed.partition_bytes:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(parsed.partition_bytes))
        spark.conf.set("spark.sql.files.openCostInBytes", str(parsed.partition_bytes))
    kime, models = send(context, parsed, folder)
    lines = read(spark, parsed.inputs)
    parts = partitions(lines) if lines is not None else {}
    tallies = tally_of(context)
    rows = lines.select("value").rdd if lines is not None else context.emptyRDD()
    threads = int(context.getConf().get("spark.task.cpus", "1"))
    rows.mapPartitionsWithIndex(make_task(kime, models, parsed.options, threads, parts, tallies)).saveAsTextFile(parsed.output)
    return tallies.value


def reason(error):
    """The status and the line that Spark's pages about a failure come down to."""
    text = str(error)
    ours = re.search(r"KimeFailed: (.*)", text)
    if ours:
        return 3, ours.group(1)
    unusable = re.search(r".*(?:FileAlreadyExistsException|PATH_NOT_FOUND|InvalidInputException).*", text)
    if unusable:
        return 2, unusable.group().strip()
    python = re.search(r"^[A-Za-z.]*(?:Error|Exception): .*", text, re.MULTILINE)
    return 3, python.group() if python else text.strip().split("\n", 1)[0] or type(error).__name__


def told(entries, seconds):
    """The job's summary, of partitions' entries."""
    total = {name: sum(entry[name] for entry in entries.values()) for name in ("records", "failed", "tokens")}
    kinds, examples = {}, []
    for _, entry in sorted(entries.items()):
        for kind, count in entry["errors"].items():
            kinds[kind] = kinds.get(kind, 0) + count
        examples += entry["examples"]
    hosts = sorted({entry["host"] for entry in entries.values()})
    return {**total, "errors": kinds, "examples": examples[:SHOWN_ERRORS], "seconds": seconds, "hosts": hosts,
            "partitions": [{"partition": index, **entry} for index, entry in sorted(entries.items())]}


def main(arguments):
    parsed = parse(arguments)
    try:
        check(parsed)
        try:
            from pyspark.sql import SparkSession
        except ModuleNotFoundError as error:
            raise Failed(2, f"the Python package pyspark is missing: {sys.executable} -m pip install pyspark (and Java 17: "
                            "apt-get install openjdk-17-jre-headless), or start this with spark-submit") from error
        started = time.monotonic()
        builder = SparkSession.builder.appName("kime score")
        spark = (builder.master(parsed.master) if parsed.master else builder).getOrCreate()
        try:
            with tempfile.TemporaryDirectory() as folder:
                summary = told(run_on(spark, parsed, folder), time.monotonic() - started)
        except Failed:
            raise
        except Exception as error:
            raise Failed(*reason(error)) from error
        finally:
            spark.stop()
    except Failed as failed:
        print(f"{NAME}: {failed}", file=sys.stderr)
        return failed.status
    if parsed.stats:
        with open(parsed.stats, "w", encoding="utf-8") as out:
            json.dump(summary, out, indent=2)
            out.write("\n")
    print(f"{NAME}: {summary['records']} records scored in {len(summary['partitions'])} partitions on {len(summary['hosts'])} hosts "
          f"in {summary['seconds']:.1f} s", file=sys.stderr)
    if summary["failed"]:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(summary["errors"].items()))
        print(f"{NAME}: {summary['failed']} records failed ({kinds}); see the lines with \"error\", such as", file=sys.stderr)
        for line in summary["examples"]:
            print("  " + line, file=sys.stderr)
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
