"""Scenarios of FORMAT.md §3.7: whole files. The same keys as in keybag/four-keys."""
import dataclasses

from format1 import (A, B, C, CLASS_KEYS, D, EPOCH, OTHER_EPOCH, OTHER_FILE_ID, OTHER_FILE_KEY, OTHER_UUID,
                     THIS_DEVICE, UNVERIFIED, UUID, VERIFIED, File, ramp, run, shown, tokens)
from head_vectors import ALL_KEYS, ORIGINS

LETTERS = {A: "a", B: "b", C: "c", D: "d"}


def success(name, what, data, text, number=A, origin=VERIFIED, clean=True, keys=None):
    """`clean`: both heads are equal, there is no area and the length is the extent."""
    fields = {"expect": "success", "source": f"FORMAT.md §3.7, {what}"} | (keys or ALL_KEYS)
    fields |= {"class": number, "origin": ORIGINS[origin], "clean": "yes" if clean else "no"}
    return f"file/{name}", fields | {"text": shown(text), "bytes": tokens(data)}


def refused(name, what, expect, data):
    fields = {"expect": expect, "source": f"FORMAT.md §3.7, {what}"} | ALL_KEYS
    return f"file/{name}", fields | {"bytes": tokens(data)}


def laid_out(head, chunks, second=bytes(4096)):
    return head + second + chunks


def at(offset, data, behind):
    """`behind` at `offset`, zeros before it."""
    assert len(data) <= offset
    return data.ljust(offset, b"\0") + behind


@dataclasses.dataclass
class Area:
    """A file of four chunks, the first and third holes, the last of 100 bytes, whose second commit opened an area."""

    name: str
    offset: int = 28_672
    epoch: int = EPOCH
    size: int = 4096 * 3 + 100
    holes: tuple = ((0, 1), (2, 1))

    def __post_init__(self):
        self.file = File(f"file/{self.name}")
        self.text = bytes(4096) + ramp(4096) + bytes(4096) + ramp(100)
        wrap = self.file.wrap()
        first = self.file.head(wrap, self.file.content(self.size, 0, self.holes))
        opening = self.file.head(wrap, self.file.content(self.size, 1, self.holes, self.offset, self.epoch))
        self.body = laid_out(first, self.file.chunks(self.text, self.holes), opening)

    def record(self, counter, size, texts, holes=((0, 1), (2, 1)), **options):
        content = self.file.content(size, counter, holes, inline=False)
        chunks = [(i, self.file.chunk(i, text)) for i, text in texts]
        return self.file.redo(content, chunks, epoch=self.epoch, **options)

    def first(self, **options):
        """Chunks 1 and 3 written over; 40 bytes longer."""
        return self.record(2, self.size + 40, [(1, b"\1" * 4096), (3, b"\2" * 140)], **options)

    def second(self, **options):
        """Chunk 1 once more, the second hole filled."""
        return self.record(3, self.size + 40, [(1, b"\3" * 4096), (2, b"\4" * 4096)], ((0, 1),), **options)

    def after_first(self):
        return bytes(4096) + b"\1" * 4096 + bytes(4096) + b"\2" * 140

    def after_second(self):
        return bytes(4096) + b"\3" * 4096 + b"\4" * 4096 + b"\2" * 140

    def with_records(self, *records):
        return at(self.offset, self.body, b"".join(records))


def files():
    for size in (0, 1, 3584):
        file = File(f"file/inline-{size}")
        yield success(f"inline-{size}", f"an inline file of {size} bytes", file.inline_head(ramp(size)), ramp(size))

    def heads(name, build, **options):
        file = File(f"file/{name}")
        return lambda what, text: success(name, what, build(file), text, **options)

    two = lambda f: f.inline_head(b"old") + f.inline_head(b"new!", 1)
    yield heads("inline-generation-2", two, clean=False)("the second commit in head 1", b"new!")
    three = lambda f: f.inline_head(b"newest", 2) + f.inline_head(b"new!", 1)
    yield heads("inline-generation-3", three, clean=False)("the third commit in head 0", b"newest")
    yield heads("inline-mirrored", lambda f: f.inline_head(b"new!", 1) * 2)("both heads equal", b"new!")
    tie = lambda f: f.inline_head(b"head 0", 1) + f.inline_head(b"head 1", 0, f.wrap(counter=2))
    yield heads("equal-generations", tie, clean=False)("different heads of the same generation: head 0", b"head 0")
    torn = lambda f: f.inline_head(b"new!", 1, late={4000: b"\1"}) + f.inline_head(b"new!", 1)
    yield heads("head-0-torn", torn, clean=False)("head 0 torn, head 1 good", b"new!")
    torn = lambda f: f.inline_head(b"new!", 1) + f.inline_head(b"new!", 1, late={0: b"\0"})
    yield heads("head-1-torn", torn, clean=False)("head 1 torn, head 0 good", b"new!")
    torn = lambda f: f.inline_head(b"first") + f.inline_head(b"new!", 1, late={4000: b"\1"})
    yield heads("head-1-torn-generation-1", torn, clean=False)("a torn second commit", b"first")
    partly = lambda f: f.inline_head(b"first") + bytes(1000)
    yield heads("head-1-partly-there", partly, clean=False)("head 1 partly zero, partly beyond the end", b"first")
    yield heads("bytes-appended", lambda f: f.inline_head(b"new!", 1) * 2 + b"appended", clean=False)(
        "bytes behind the extent", b"new!")
    forged = lambda f: File("x", patch={0: b"x"}).inline_head(b"forged", 5) + f.inline_head(b"new!", 1)
    yield heads("head-0-without-magic", forged, clean=False)(
        "another magic under a good check: that head is not good", b"new!")
    moved = lambda f: (f.inline_head(b"moved", 1, f.wrap(D, counter=2)) + f.inline_head(b"moved", 1))
    yield heads("class-change-interrupted", moved, number=D, clean=False)(
        "a class change that stopped halfway", b"moved")
    moved = lambda f: (f.inline_head(b"moved", 1, f.wrap(B, counter=2)) * 2)
    yield heads("class-changed", moved, number=B)("a class change", b"moved")

    for number, letter in LETTERS.items():
        for origin, key in [(VERIFIED, "c"), (THIS_DEVICE, "device"), (UNVERIFIED, None)]:
            name = f"class-{letter}-{ORIGINS[origin].replace(' ', '-')}"
            file = File(f"file/{name}")
            data = file.inline_head(b"class", wrap=file.wrap(number, origin=key))
            yield success(name, f"class {letter.upper()}, {ORIGINS[origin]}", data, b"class", number, origin)
    file = File("file/origin-not-checkable")
    without = {name: key for name, key in ALL_KEYS.items() if name != "class key c 1"}
    data = file.inline_head(b"x", wrap=file.wrap(B))
    yield success("origin-not-checkable", "class key C is not there", data, b"x", B, UNVERIFIED, keys=without)

    def chunked(name, what, text, exponent=12, holes=(), **options):
        file = File(f"file/{name}", exponent)
        head = file.head(file.wrap(C), file.content(len(text), 0, holes, inline=False))
        body = file.chunks(text, holes)
        last = max((i for i in range(-(-len(text) // file.chunk_size)) if not any(
            first <= i < first + length for first, length in holes)), default=-1)
        end = min(len(text) - last * file.chunk_size, file.chunk_size) + 28 + file.home(last) - 8192 if last >= 0 else 0
        return success(name, what, laid_out(head, body[:end]), text, C, **options)

    for size in (0, 1, 3585, 4095, 4096, 4097, 8192):
        yield chunked(f"chunked-{size}", f"a chunked file of {size} bytes", ramp(size))
    yield chunked("chunked-64-kib", "chunks of 64 KiB", ramp(65_536 + 1000), 16)
    text = bytes(8192) + ramp(4096) + bytes(4096) + b"\5" * 4096 + bytes(4000)
    yield chunked("holes", "holes at the beginning, in the middle, at the end", text, holes=[(0, 2), (3, 1), (5, 1)])
    yield chunked("hole-only", "nothing but a hole", bytes(100_000), holes=[(0, 25)])
    file, text, holes = File("file/hole-with-bytes"), ramp(4096) + bytes(4096) + ramp(50), [(1, 1)]
    body = file.chunk(0, text[:4096]) + b"\xff" * 4124 + file.chunk(2, text[8192:])
    head = file.head(file.wrap(), file.content(len(text), 0, holes))
    yield success("hole-with-bytes", "bytes at the home of a hole mean nothing", laid_out(head, body), text)

    area = Area("area-one-record")
    yield success(area.name, "an open area", area.with_records(area.first()), area.after_first(), clean=False)
    area = Area("area-two-records")
    data = area.with_records(area.first(), area.second())
    yield success(area.name, "an open area with two records", data, area.after_second(), clean=False)
    area = Area("area-without-record")
    yield success(area.name, "an area whose first record never came", area.body, area.text, clean=False)
    area = Area("area-behind-torn-record")
    data = area.with_records(area.first(late={300: b"\1\1"}), area.second())
    yield success(area.name, "a torn record ends the area", data, area.text, clean=False)
    area = Area("area-second-record-torn")
    data = area.with_records(area.first(), area.second()[:-1])
    yield success(area.name, "the second record is cut off", data, area.after_first(), clean=False)
    area, old = Area("area-of-older-epoch"), Area("area-of-older-epoch'", epoch=OTHER_EPOCH)
    yield success(area.name, "records of an earlier area", area.with_records(old.first()), area.text, clean=False)
    area = Area("area-second-of-older-epoch")
    data = area.with_records(area.first(), Area(f"{area.name}'", epoch=OTHER_EPOCH).second())
    yield success(area.name, "behind the records those of an earlier area", data, area.after_first(), clean=False)
    area = Area("area-shrunk-and-grown")
    cut, grown = area.record(3, 2 * 4096, [], [(0, 1)]), area.record(4, 4 * 4096, [], [(0, 1), (2, 2)])
    text = area.after_first()[:8192] + bytes(8192)
    data = area.with_records(area.first(), cut, grown)
    yield success(area.name, "cut and continued with a hole", data, text, clean=False)


def broken_files():
    yield refused("empty", "a file of 0 bytes", "not protected", b"")
    yield refused("plain", "plaintext", "not protected", ramp(9000))
    yield refused("plain-magic-elsewhere", "the magic in other places", "not protected",
                  b"\0" + run(0, 8) + b"\x89PFS\r\n\x1a\n")
    for count in (1, 7, 8):
        yield refused(f"magic-{count}", f"{count} bytes of the magic", "damaged head", b"\x89PFS\r\n\x1a\n"[:count])
    file = File("file/cut-4095")
    yield refused("cut-4095", "the last byte cut off", "damaged head", file.inline_head(b"text")[:4095])
    file = File("file/magic-flipped")
    yield refused("magic-flipped", "a bit of the magic changed, no second head", "damaged head",
                  b"\x88" + file.inline_head(b"text")[1:])
    file = File("file/heads-torn")
    both = file.inline_head(b"text", 1, late={300: b"\1\1"})
    yield refused("heads-torn", "both heads torn", "damaged head", both * 2)
    file = File("file/first-head-overwritten")
    yield refused("first-head-overwritten", "no head but the magic of head 1", "damaged head",
                  ramp(4096) + b"\x89PFS\r\n\x1a\n" + ramp(100))
    file, other = File("file/prefixes"), File("file/prefixes'", fid=OTHER_FILE_ID)
    yield refused("prefixes", "two good heads of different files", "damaged head",
                  file.inline_head(b"one", 1) + other.inline_head(b"two", 2))
    file = File("file/stale-head-broken")
    broken = file.inline_head(b"stale", wrap=file.wrap(patch={172: b"\1"}))
    yield refused("stale-head-broken", "a good head that breaks a rule, though it is not in force",
                  "damaged wrap record", broken + file.inline_head(b"new!", 1))
    file = File("file/newest-head-broken")
    broken = file.head(None, file.content(4, 1, patch={56: b"\1"}), file.inline(b"new!", 1))
    yield refused("newest-head-broken", "no falling back to the older head", "damaged content record",
                  file.inline_head(b"old") + broken)
    file = File("file/newest-head-unsealed")
    broken = file.head(None, file.content(4, 1, seal_key=run(3)), file.inline(b"new!", 1))
    yield refused("newest-head-unsealed", "a seal that does not open, and no falling back", "damaged content record",
                  file.inline_head(b"old") + broken)
    file, newer = File("file/newest-head-version-2"), File("file/newest-head-version-2'", patch={8: b"\2\0"})
    yield refused("newest-head-version-2", "one head of a later version", "unsupported",
                  file.inline_head(b"old") + newer.inline_head(b"new!", 1))
    file = File("file/class-change-of-other-wrap")
    forged = file.inline_head(b"text", 1, file.wrap(C, counter=2, wrapped=file.wrapped(A, 1, CLASS_KEYS[A], UUID)))
    yield refused("class-change-of-other-wrap", "a wrap for another class", "damaged wrap",
                  forged + file.inline_head(b"text", 1))
    file = File("file/generation-2-short")
    yield refused("generation-2-short", "a second generation without room for head 1", "damaged head",
                  file.inline_head(b"text", 1) + bytes(4095))
    file = File("file/chunked-short")
    yield refused("chunked-short", "a chunked file of 4,096 bytes", "damaged head",
                  file.head(None, file.content(0, inline=False)))
    for name, expect, wrap in [("foreign-keybag", "foreign keybag", {"uuid": OTHER_UUID}),
                               ("key-lost", "key lost", {"generation": 9})]:
        file = File(f"file/{name}")
        yield refused(name, "a key that is not there", expect, file.inline_head(b"text", wrap=file.wrap(**wrap)))
    file = File("file/commitment-of-other-key")
    other = File("", key=OTHER_FILE_KEY).commitment
    yield refused(file.name[5:], "the commitment of another key", "damaged key commitment",
                  file.inline_head(b"text", wrap=file.wrap(commitment=other)))

    text = ramp(4096 * 2 + 50)

    def damaged(name, what, change):
        file = File(f"file/{name}")
        head = file.head(None, file.content(len(text)))
        parts = [file.chunk(i, text[i * 4096 : (i + 1) * 4096]) for i in range(3)]
        return refused(name, what, "damaged chunk", laid_out(head, b"".join(change(file, parts))))

    yield damaged("chunks-swapped", "two chunks swapped", lambda f, p: [p[1], p[0], p[2]])
    yield damaged("chunk-zero", "zero bytes instead of a chunk", lambda f, p: [p[0], bytes(4124), p[2]])
    yield damaged("chunk-flipped", "a bit of a chunk changed", lambda f, p: [
        p[0], p[1], p[2][:-1] + bytes([p[2][-1] ^ 1])])
    yield damaged("chunk-cut", "the last byte cut off", lambda f, p: [p[0], p[1], p[2][:-1]])
    yield damaged("chunk-missing", "the last chunk cut off", lambda f, p: p[:2])
    yield damaged("chunk-of-other-file", "a chunk of another file", lambda f, p: [
        p[0], File(f.name + "'", fid=OTHER_FILE_ID, key=OTHER_FILE_KEY).chunk(1, text[4096:8192]), p[2]])
    yield damaged("chunk-of-other-id", "a chunk sealed for another file id under this file's key", lambda f, p: [
        p[0], f.seal(f.chunk_key, File("", fid=OTHER_FILE_ID).aad(4, 1), text[4096:8192]), p[2]])
    yield damaged("chunk-of-other-size", "a chunk sealed for another chunk size", lambda f, p: [
        p[0], f.seal(f.chunk_key, File("", exponent=16).aad(4, 1), text[4096:8192]), p[2]])
    yield damaged("chunk-under-head-key", "a chunk sealed under the head key", lambda f, p: [
        p[0], f.seal(f.head_key, f.aad(4, 1), text[4096:8192]), p[2]])

    area = Area("area-counter-skips")
    data = area.with_records(area.record(3, area.size, [(3, b"\2" * 100)]))
    yield refused(area.name, "a record whose counter is not the successor", "damaged redo record", data)
    area = Area("area-second-counter-equal")
    data = area.with_records(area.first(), area.record(2, area.size, [(3, b"\2" * 100)]))
    yield refused(area.name, "a second record with the counter of the first", "damaged redo record", data)
    area = Area("area-record-unsealed")
    content = area.file.content(area.size, 2, area.holes, seal_key=run(3))
    data = area.with_records(area.file.redo(content, [(3, area.file.chunk(3, b"\2" * 100))]))
    yield refused(area.name, "a record whose content record does not open", "damaged content record", data)
    area = Area("area-chunk-flipped")
    chunk = area.file.chunk(3, b"\2" * 100)
    data = area.with_records(area.file.redo(area.file.content(area.size, 2, area.holes), [(3, chunk[:-1] + b"\0")]))
    yield refused(area.name, "a chunk of a record changed, the check made anew", "damaged chunk", data)
    area = Area("area-chunk-too-short")
    data = area.with_records(area.record(2, area.size, [(3, b"\2" * 100)]), area.record(3, area.size + 1, []))
    yield refused(area.name, "a longer file whose last chunk was not sealed again", "damaged chunk", data)
