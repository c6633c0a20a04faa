"""What a reader's interpreter runs: `client.py LIBRARY TASK ADDRESS PATH OUT [COUNT LENGTH STEP]`.

Tasks: `copy` (PATH is a source here, ADDRESS where it goes), `whole` (the file PATH into OUT) and `ranges` (COUNT of LENGTH
bytes, STEP apart and in a drawn order, into OUT one behind the other). Prints the seconds that the task took, without
the interpreter's start, as JSON.
"""

import json
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

SEED = 1
# Of those that are told by hand to read a file in parts: how many at once.
PARTS = 32

# Ranges of one file, in the order asked for.
Ranges = Callable[[str, Sequence[int], Sequence[int]], Sequence[bytes]]
Whole = Callable[[str], bytes]


def parts(size: int, count: int) -> tuple[list[int], list[int]]:
    """Where so many parts of a file begin and end."""
    edges = [size * i // count for i in range(count + 1)]
    return edges[:-1], edges[1:]


def by_fsspec(fs, inside: Callable[[str], str], in_parts: bool) -> tuple[Whole, Ranges]:
    def ranges(path: str, starts: Sequence[int], ends: Sequence[int]) -> Sequence[bytes]:
        return fs.cat_ranges([inside(path)] * len(starts), list(starts), list(ends))

    def whole(path: str) -> bytes:
        if not in_parts:
            return fs.cat_file(inside(path))
        return b"".join(ranges(path, *parts(fs.info(inside(path))["size"], PARTS)))

    return whole, ranges


def tidegate(address: str, in_parts: bool) -> tuple[Whole, Ranges]:
    import fsspec

    return by_fsspec(fsspec.filesystem("tidegate", place=address), lambda path: path, in_parts)


def http(address: str, in_parts: bool) -> tuple[Whole, Ranges]:
    import fsspec

    return by_fsspec(fsspec.filesystem("http"), lambda path: f"{address}/{path}", in_parts)


def s3fs(address: str, in_parts: bool) -> tuple[Whole, Ranges]:
    from s3fs import S3FileSystem

    fs = S3FileSystem(anon=True, endpoint_url=address, config_kwargs={"s3": {"addressing_style": "path"}})
    return by_fsspec(fs, lambda path: path, in_parts)


def obstore(address: str, in_parts: bool) -> tuple[Whole, Ranges]:
    import obstore
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(address, client_options={"allow_http": True})

    def ranges(path: str, starts: Sequence[int], ends: Sequence[int]) -> Sequence[bytes]:
        return obstore.get_ranges(store, path, starts=starts, ends=ends)

    def whole(path: str) -> bytes:
        if not in_parts:
            return bytes(obstore.get(store, path).bytes())
        # Neighbours that are asked for together it would join again.
        with ThreadPoolExecutor(PARTS) as pool:
            places = zip(*parts(obstore.head(store, path)["size"], PARTS), strict=True)
            return b"".join(pool.map(lambda place: obstore.get_range(store, path, start=place[0], end=place[1]), places))

    return whole, ranges


LIBRARIES = {each.__name__: each for each in (tidegate, http, s3fs, obstore)}


def main() -> None:
    # Whoever is told to leave does, whatever code it is in.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    library, task, address, path, out, *numbers = sys.argv[1:]
    if task == "copy":
        import tidegate as package

        begin = time.monotonic()
        package.copy(path, address)
        print(json.dumps({"seconds": time.monotonic() - begin}))
        return
    whole, ranges = LIBRARIES[library.removesuffix("-parts")](address, library.endswith("-parts"))
    if task == "whole":
        begin = time.monotonic()
        content = [whole(path)]
    else:
        count, length, step = map(int, numbers)
        starts = [step * i for i in random.Random(SEED).sample(range(count), count)]
        begin = time.monotonic()
        content = ranges(path, starts, [start + length for start in starts])
    seconds = time.monotonic() - begin
    with open(out, "wb") as file:
        file.writelines(content)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
