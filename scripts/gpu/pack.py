"""The archive for a machine that has a GPU's driver, the CUDA toolkit and Python, and nothing of kime's: the same paths as in the tree."""
import os
import re
import subprocess
import tarfile

from place import CHECK_PARITY, FAKE_DRIVER, LIBRARIES, MAKE_CHECKPOINT
from steps import DEVICE_TESTS

TOP = "kime-gpu-check"
MOST_BYTES = 60 << 20
# Of the C and C++ compilers, without which there is no toolkit; a program's own copies of these could be older than what others there need.
OF_THE_SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so.*|linux-vdso.*")


class CannotPack(Exception):
    """Something is missing, or the archive is too large."""


def libraries_of(binary):
    """The shared libraries that a binary needs and another machine may lack: name and path."""
    told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise CannotPack(f"ldd {binary}: {told.stderr.strip()}")
    found = dict(re.findall(r"^\s*(\S+) => (\S+|not found)", told.stdout, re.MULTILINE))
    for name, path in found.items():
        if path == "not":
            raise CannotPack(f"{binary} needs {name}, which is not found")
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.fullmatch(name)}


def contents(place):
    """What goes into the archive: path there, file or folder here."""
    binaries = {"build/release/kime": place.kime}
    for name in (DEVICE_TESTS, FAKE_DRIVER):
        if os.path.exists(place.test(name)):
            binaries[f"build/release/tests/{name}"] = place.test(name)
    files = dict(binaries)
    for binary in binaries.values():
        files.update({f"{LIBRARIES}/{name}": os.path.realpath(path) for name, path in libraries_of(binary).items()})
    for path in ("scripts/gpu-check", "scripts/gpu", MAKE_CHECKPOINT, CHECK_PARITY, "testdata/demo", "testdata/parity", "LICENSE"):
        files[path] = place.path(path)
    return files


def pack(place, archive, most=MOST_BYTES):
    """Writes the archive; returns its size."""
    files = contents(place)
    for path in files.values():
        if not os.path.exists(path):
            raise CannotPack(f"there is no {path}")

    def plain(entry):
        return None if "__pycache__" in entry.name else entry.replace(uid=0, gid=0, uname="root", gname="root", deep=False)

    with tarfile.open(archive, "w:gz") as out:
        for there, here in files.items():
            out.add(here, f"{TOP}/{there}", filter=plain)
    size = os.path.getsize(archive)
    if size > most:
        os.remove(archive)
        raise CannotPack(f"the archive has {size:,} bytes, {most:,} are the most")
    return size
