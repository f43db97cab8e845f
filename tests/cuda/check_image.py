#!/usr/bin/env python3
"""Holds the fat binaries that the build made against the kernels' sources.

    check_image.py KIME LIBRARY ARCHITECTURES PTX MOST_BYTES OBJECTS IMAGES    lists are parted by commas

Every kernel that the shim's objects have is in the images for each architecture, and as PTX; LIBRARY holds the images whole;
they have MOST_BYTES at most; the binary KIME names no CUDA library. Exits 77 where the images are packed in a way that cannot be read here.
"""
import ctypes
import ctypes.util
import os
import re
import struct
import subprocess
import sys

MAGIC = 0xBA55ED50
PTX, CUBIN = 1, 2
PACKED, ZSTD = 0x8000 | 0x2000, 0x8000  # flags of an entry: packed in any way; by zstd
SKIPPED = 77


def unpacked(data, size):
    """What zstd packed into `data`; nvcc pads it."""
    zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    for name, arguments in (("ZSTD_decompress", [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]),
                            ("ZSTD_findFrameCompressedSize", [ctypes.c_char_p, ctypes.c_size_t]), ("ZSTD_isError", [ctypes.c_size_t])):
        function = getattr(zstd, name)
        function.argtypes, function.restype = arguments, ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    frame = zstd.ZSTD_findFrameCompressedSize(data, len(data))
    if zstd.ZSTD_isError(frame) or zstd.ZSTD_decompress(out, size, data, frame) != size:
        raise SystemExit("check_image: an entry that says it is zstd is not")
    return out.raw


def entries(image):
    """(kind, architecture, content) of each entry of a fat binary."""
    magic, _, header, _ = struct.unpack_from("<IHHQ", image, 0)
    if magic != MAGIC:
        raise SystemExit(f"check_image: no fat binary: it begins with {magic:#x}")
    at = header
    while at < len(image):
        kind, _, header, stored = struct.unpack_from("<HHIQ", image, at)
        architecture, = struct.unpack_from("<I", image, at + 28)
        flags, = struct.unpack_from("<Q", image, at + 40)
        size, = struct.unpack_from("<Q", image, at + 56)
        content = image[at + header:at + header + stored]
        if flags & PACKED == ZSTD:
            content = unpacked(content, size)
        elif flags & PACKED:
            print(f"check_image: the images are packed otherwise than by zstd (flags {flags:#x}): names are not checked")
            sys.exit(SKIPPED)
        yield kind, str(architecture), content
        at += header + stored


def kernels_of(kind, content):
    pattern = rb"\.entry (kime_\w+)" if kind == PTX else rb"\0\.text\.(kime_\w+)\0"
    return {name.decode() for name in re.findall(pattern, content)}


def registered(objects):
    """The kernels that the shim's objects define."""
    names = subprocess.run(["nm", "--defined-only", "--format=posix", *objects], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^(kime_\w+) T ", names, re.MULTILINE))


def main():
    kime, library, architectures, ptx, most, objects, files = sys.argv[1:]
    architectures, objects, files = architectures.split(","), objects.split(","), files.split(",")
    images = []
    for path in files:
        with open(path, "rb") as source:
            images.append(source.read())
    wrong = []
    needed = subprocess.run(["readelf", "-d", kime], capture_output=True, text=True, check=True).stdout
    wrong += [f"{kime} needs {name} to start" for name in re.findall(r"NEEDED.*\[(lib(?:cu|nv)[^\]]*)\]", needed)]
    with open(library, "rb") as source:
        whole = source.read()
    wrong += [f"{os.path.basename(library)} does not hold {path}" for path, image in zip(files, images) if image not in whole]
    size = sum(map(len, images))
    if size > int(most):
        wrong.append(f"the images have {size} bytes, {most} are the most")
    wanted = registered([path for path in objects if "/kernels/cuda/" in path])
    found = {(CUBIN, a): set() for a in architectures} | {(PTX, ptx): set()}
    for kind, architecture, content in (entry for image in images for entry in entries(image)):
        if (kind, architecture) not in found:
            wrong.append(f"an entry of kind {kind} for {architecture} is not asked for")
        else:
            found[kind, architecture] |= kernels_of(kind, content)
    for (kind, architecture), names in found.items():
        form = "PTX" if kind == PTX else "code"
        wrong += [f"no {form} of {name} for {architecture}" for name in sorted(wanted - names)]
        wrong += [f"{name} for {architecture} is no kernel that the shim runs" for name in sorted(names - wanted)]
    if not wanted:
        wrong.append("the shim's objects have no kernels")
    for line in wrong:
        print(line)
    print(f"check_image: {len(wanted)} kernels, {len(images)} images, {size:,} bytes; compute capability {', '.join(architectures)}; {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
