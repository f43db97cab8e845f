"""Where things are: in the tree, or unpacked on another machine, where an archive has the same paths and a folder of libraries."""
import glob
import os
import shutil
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LIBRARIES = "lib-packed"
CHECK_PARITY = os.path.join("tests", "e2e", "check_parity.py")
MAKE_CHECKPOINT = os.path.join("scripts", "peers", "make_checkpoint.py")
FAKE_DRIVER = "libkime_fake_libcuda.so"
FAKE_SET = "nohead-f32"


class Place:
    def __init__(self, scratch, fake):
        self.scratch = scratch
        self.fake = fake
        self.kime = os.path.abspath(os.environ.get("KIME") or self.path("build", "release", "kime"))
        self.python = sys.executable
        self.no_gpu = "it is not known what devices there are"  # until `kime devices` has been asked
        self.gemm_gflops = None  # what a large product reaches here, once it was measured

    @staticmethod
    def path(*parts):
        return os.path.join(ROOT, *parts)

    def test(self, name):
        """A file that the build made for tests."""
        return os.path.join(os.path.dirname(self.kime), "tests", name)

    def scratch_path(self, *parts):
        return os.path.join(self.scratch, *parts)

    def cache(self):
        """Where runs leave what they have verified of cuBLASLt for those that follow."""
        return self.scratch_path("cache")

    def sets(self):
        """The sets with known scores: name and folder. The fakes run kernels on the CPU, fiber by fiber: they get the smallest one."""
        named = {os.path.basename(folder): folder for folder in sorted(glob.glob(self.path("testdata", "parity", "*")))}
        return {FAKE_SET: named[FAKE_SET]} if self.fake else {"demo": self.path("testdata", "demo"), **named}

    def env(self):
        env = dict(os.environ)
        if os.path.isdir(self.path(LIBRARIES)):
            env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [self.path(LIBRARIES), env.get("LD_LIBRARY_PATH")]))
        if self.fake:
            # Without cuBLASLt: every process would verify its products of up to 16,384 rows on the CPU. The end-to-end tests do it once.
            env.update({"KIME_CUDA_DRIVER": self.test(FAKE_DRIVER), "KIME_CUBLASLT": "left out over the fake driver"})
        return env

    @staticmethod
    def tool(name):
        """A program of the CUDA toolkit, or None."""
        for folder in (None, *(os.path.join(home, "bin") for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home)):
            if found := shutil.which(name, path=folder):
                return found
        return None
