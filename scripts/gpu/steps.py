"""What is checked where a GPU is: the table of steps, and how what their commands did is judged."""
import importlib.util
import json
import os
import re
import subprocess
import tempfile

from place import CHECK_PARITY, MAKE_CHECKPOINT
from runner import Failed, Skipped, Step

PRECISIONS = ("f32", "f16", "bf16")
SPEED_PRECISION = "f16"  # what `--precision auto` is on GPUs
SIZES = ("base", "large")
DEVICE_TESTS = "kime_test_cuda_device"
DEVICE_CASES = "~[#shim_test]~[#warp_test]"  # all but those of the host's stand-in for a device; by the names of files
LATENCY_TOKENS = 128
LATENCY_RUNS = 200
FEW = 8  # records, where kernels run fiber by fiber or under compute-sanitizer
# Ways to run the same records: how a record shares its batches with others must not show.
BUCKETS = ("compat 2048 1 512\n", "compat 2048 3 512\n")  # one record a batch, three at most


def score(place, folder, precision, *options, records=None):
    return [place.kime, "score", "-q", "-m", folder, "--devices", "cuda", "--cache", place.cache(), "--precision", precision, "--emit", "all", *options,
            records or os.path.join(folder, "records.jsonl")]


def see_devices(place, done):
    told = json.loads(done[0].stdout)
    usable = [device for device in told["devices"] if device["kind"] == "cuda"]
    if usable:
        place.no_gpu = None
        return ", ".join(f"{device['device']} {device['name']}" for device in usable), {"devices": usable}
    why = [device["why"] for device in (*told.get("unused", []), *told["missing"]) if device["kind"] == "cuda"]
    place.no_gpu = f"no CUDA device: {why[0] if why else 'kime devices shows none'}"
    raise Failed(place.no_gpu)


def parity(place, precision, done):
    worst = []
    for ran, (name, folder) in zip(done, place.sets().items()):
        with tempfile.NamedTemporaryFile(dir=place.scratch, suffix=".jsonl") as scores:
            scores.write(ran.stdout)
            scores.flush()
            checked = subprocess.run([place.python, "-B", place.path(CHECK_PARITY), folder, scores.name, "--precision", precision],
                                     capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            raise Failed(f"{name}: the scores are not the reference's", checked.stderr + checked.stdout)
        worst.append(checked.stdout.strip())
    return f"holds on {', '.join(place.sets())}", {"sets": worst}


def few(place, folder):
    """A file of the first records of a set."""
    path = place.scratch_path("few.jsonl")
    with open(os.path.join(folder, "records.jsonl"), encoding="utf-8") as source, open(path, "w", encoding="utf-8") as out:
        out.writelines(source.readlines()[:FEW])
    return path


def ways(place, precision):
    """Commands that score the same records in different ways."""
    folder = list(place.sets().values())[0]
    records = few(place, folder) if place.fake else os.path.join(folder, "records.jsonl")
    turned = place.scratch_path("turned.jsonl")
    with open(records, encoding="utf-8") as source, open(turned, "w", encoding="utf-8") as out:
        out.writelines(reversed(source.readlines()))
    commands = [score(place, folder, precision, *streams, records=records) for streams in (("--streams", "one"), ("--streams", "4"))]
    commands.append(score(place, folder, precision, records=turned))
    for index, table in enumerate(BUCKETS):
        path = place.scratch_path(f"buckets{index}")
        with open(path, "w", encoding="utf-8") as out:
            out.write(table)
        commands.append(score(place, folder, precision, "--buckets", path, records=records))
    return commands


def same_bits(done):
    first, *others = (sorted(ran.stdout.splitlines()) for ran in done)
    for ran, lines in zip(done[1:], others):
        if lines != first:
            differ = [line for line in lines if line not in set(first)]
            raise Failed(f"{len(differ)} of {len(first)} lines differ from those on one stream: {' '.join(ran.command)}",
                         b"\n".join(differ[:3]).decode(errors="replace"))
    return f"{len(first)} records, {len(done)} ways", {}


def sanitized(done):
    for ran in done:
        said = ran.stdout.decode(errors="replace") + ran.stderr
        found = re.search(r"ERROR SUMMARY: (\d+) error", said)
        if not found or "not supported" in said.lower():
            lines = [line for line in said.splitlines() if line.strip()]
            raise Skipped(f"compute-sanitizer does not run here: {lines[-1] if lines else f'status {ran.status}'}")
        if int(found.group(1)) or ran.status != 0:
            raise Failed(f"{found.group(1)} errors, status {ran.status}: {' '.join(ran.command)}", said)
    return f"nothing found in {len(done)} runs", {}


def sanitizer_commands(place):
    tool = place.tool("compute-sanitizer") or "compute-sanitizer"
    folder = place.sets()["nohead-f32"]
    path = few(place, folder)
    return [[tool, "--tool", name, "--error-exitcode", "9", *score(place, folder, precision, records=path)]
            for name in ("memcheck", "racecheck", "synccheck") for precision in ("f16", "f32")]


def gemm_rate(place, done):
    figures = json.loads(done[0].stdout)
    place.gemm_gflops = figures["gflops"]
    return f"{figures['gflops'] / 1000:.0f} TFLOP/s in a product of {figures['side']} x {figures['side']} x {figures['side']}, {figures['precision']}", figures


def speed(place, name, done):
    told = json.loads(done[0].stdout)
    peak, model = place.gemm_gflops, told["model_gflops"]
    cores = done[0].cpu_seconds / done[0].seconds
    figures = {"size": name, "precision": told["precision"], "tokens_per_second": told["tokens_per_second"], "model_gflops": model,
               "gemm_gflops": peak, "share_of_gemm": model / peak if peak else None, "host_cores": cores}
    share = f"{100 * model / peak:.1f} % of the product's rate" if peak else "share of a large product's rate: - (not measured)"
    return f"{told['tokens_per_second']:,.0f} tokens/s, {model / 1000:.3g} TFLOP/s, {share}, {cores:.2f} host cores", figures


def latency(done):
    figures = json.loads(done[0].stdout)
    median, late = 1e3 * figures["median_seconds"], 1e3 * figures["p99_seconds"]
    return f"a record of {figures['tokens']} tokens: {median:.2f} ms there and back, 99 % within {late:.2f}", figures


def steps(place):
    def gpu():
        return place.no_gpu

    def there(path, what):
        return lambda: place.no_gpu or (None if path and os.path.exists(path) else what)

    yield Step("devices", 30, [[place.kime, "devices", "--json"]], lambda done: see_devices(place, done))
    tests = place.test(DEVICE_TESTS)
    yield Step("tests on the device", 120, [[tests, "-#", "[#norm_test]" if place.fake else DEVICE_CASES]], lambda done: (done[0].stdout.decode().strip().splitlines()[-1], {}),
               needs=there(tests, f"this build has no {DEVICE_TESTS}"))
    for precision in PRECISIONS:
        yield Step(f"parity, {precision}", 60, [score(place, folder, precision) for folder in place.sets().values()],
                   lambda done, precision=precision: parity(place, precision, done), needs=gpu)
    for precision in PRECISIONS:
        yield Step(f"same bits, {precision}", 60, ways(place, precision), same_bits, needs=gpu)
    yield Step("compute-sanitizer", 90, sanitizer_commands(place), sanitized, any_status=True, required=False,
               needs=there(place.tool("compute-sanitizer"), "compute-sanitizer is not installed"))
    if place.fake:
        folders = place.sets()
    else:
        folders = {size: place.scratch_path(size) for size in SIZES}
        yield Step("a large product", 40, [[place.python, "-B", place.path("scripts", "gpu", "gemm_rate.py")]], lambda done: gemm_rate(place, done), needs=gpu)
        yield Step("random checkpoints", 60, [[place.python, "-B", place.path(MAKE_CHECKPOINT), folder, "--size", size] for size, folder in folders.items()],
                   lambda done: (", ".join(folders), {}), needs=lambda: place.no_gpu or (None if importlib.util.find_spec("numpy") else "numpy is not installed"))
    runs, tokens = (10, 16) if place.fake else (LATENCY_RUNS, LATENCY_TOKENS)
    for name, folder in folders.items():
        made = there(os.path.join(folder, "encoder", "config.json"), "its checkpoint was not made")
        work = ["--seconds", "1", "--records", few(place, folder)] if place.fake else ["--seconds", "15"]
        on = ["-m", folder, "--devices", "cuda", "--cache", place.cache(), "--precision", SPEED_PRECISION]
        yield Step(f"speed, {name}", 60, [[place.kime, "bench", *on, *work, "--json"]], lambda done, name=name: speed(place, name, done), needs=made)
        yield Step(f"latency, {name}", 40, [[place.python, "-B", place.path("scripts", "gpu", "latency.py"), str(tokens), str(runs),
                                             place.kime, "score", "-q", *on]], latency, needs=made)
