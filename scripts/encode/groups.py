"""An input's bytes as groups of whole lines, which are what an encoding process gets at once."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"


def groups(read, max_line):
    """Pairs of the first line's number and the lines' bytes, as these come: `read` gives some, none at the end. Instead of the bytes of
    a line that is too long to be held, there is None: of a line no more than `max_line` bytes and a piece are kept."""
    first, held, length = 1, [], 0
    while data := read():
        if b"\n" not in data:
            length += len(data)
            held = [*held, data] if length <= max_line else []
            continue
        end = data.rindex(b"\n") + 1
        whole, rest = data[:end], data[end:]
        if length > max_line:
            yield first, None
            first += 1
            whole = whole[whole.index(b"\n") + 1:]
        else:
            whole = b"".join([*held, whole])
        held, length = [rest], len(rest)
        if whole:
            yield first, whole.removeprefix(BYTE_ORDER_MARK) if first == 1 else whole
            first += whole.count(b"\n")
    if length > max_line:
        yield first, None
    elif length:
        whole = b"".join(held)
        yield first, whole.removeprefix(BYTE_ORDER_MARK) if first == 1 else whole


def lines(first, data):
    """The lines of a group that are not blank, with their numbers."""
    for number, line in enumerate(data.split(b"\n"), first):
        if line.strip(BLANK):
            yield number, line
