"""Scenarios of FORMAT.md §§3.1 to 3.6: heads, wraps of file keys, redo records."""
from format1 import (A, B, C, CLASS_KEYS, D, DEVICE_KEY, EPOCH, FILE_ID, FILE_KEY, OTHER_EPOCH, OTHER_FILE_ID,
                     OTHER_FILE_KEY, OTHER_UUID, THIS_DEVICE, UNVERIFIED, UUID, VERIFIED, File, ramp, run, shown,
                     tokens, u16, u32, u64)

ALL_KEYS = {"keybag": UUID, "device key": DEVICE_KEY} | {
    f"class key {letter} 1": CLASS_KEYS[number] for letter, number in zip("abcd", CLASS_KEYS)}
ORIGINS = {UNVERIFIED: "unverified", THIS_DEVICE: "this device", VERIFIED: "verified"}
EMPTY_HOLE = [(0, 1)]


def scenario(section, name, what, data, expect="success", **fields):
    fields = {field.replace("_", " "): value for field, value in fields.items()}
    return name, {"expect": expect, "source": f"FORMAT.md §{section}, {what}"} | fields | {"bytes": tokens(data)}


def heads():
    def inline(name, what, text, wrap=None, counter=0, origin=VERIFIED, number=A, wrap_counter=1):
        file = File(f"head/{name}")
        head = file.inline_head(text, counter, wrap(file) if wrap else None)
        return scenario("3.1", f"head/{name}", what, head, **ALL_KEYS, file_id=FILE_ID, file_key=FILE_KEY,
                        **{"class": number}, chunk_size=4096, wrap_counter=wrap_counter, origin=ORIGINS[origin],
                        content_counter=counter, size=len(text), text=shown(text))

    yield inline("inline-empty", "an empty file", b"")
    yield inline("inline-5", "an inline file", b"hello")
    yield inline("inline-3584", "the longest inline file", ramp(3584))
    yield inline("inline-later", "both counters raised", b"hello", lambda f: f.wrap(counter=258), 65538,
                 wrap_counter=258)
    for number, letter in zip(CLASS_KEYS, "abcd"):
        yield inline(f"class-{letter}-under-c", "origin under C", b"origin", lambda f: f.wrap(number), number=number)
        yield inline(f"class-{letter}-under-device-key", "origin under the device key", b"origin",
                     lambda f: f.wrap(number, origin="device"), origin=THIS_DEVICE, number=number)
        yield inline(f"class-{letter}-without-origin", "no origin", b"origin", lambda f: f.wrap(number, origin=None),
                     origin=UNVERIFIED, number=number)
    yield inline("origin-carried-this-device", "verdict this device under C", b"x",
                 lambda f: f.wrap(B, verdict=THIS_DEVICE), origin=THIS_DEVICE, number=B)
    yield inline("origin-carried-unverified", "verdict unverified under C", b"x",
                 lambda f: f.wrap(B, verdict=UNVERIFIED), origin=UNVERIFIED, number=B)
    yield inline("origin-claimed-verified", "verdict verified under the device key counts as this device", b"x",
                 lambda f: f.wrap(B, origin="device", verdict=VERIFIED), origin=THIS_DEVICE, number=B)
    yield inline("origin-forged", "a MAC under another key", b"x", lambda f: f.wrap(B, mac_key=run(9)),
                 origin=UNVERIFIED, number=B)
    yield inline("origin-of-other-verdict", "a MAC over another verdict", b"x",
                 lambda f: f.wrap(B, verdict=UNVERIFIED, patch={10: b"\2"}), origin=UNVERIFIED, number=B)

    def chunked(name, what, size, exponent=12, **options):
        file = File(f"head/{name}", exponent)
        head = file.head(None, file.content(size, inline=False, **options))
        fields = {"holes": " ".join(f"{first}+{length}" for first, length in options.get("holes", []))}
        for field, option in [("redo offset", "redo"), ("epoch", "epoch"), ("seal count", "seals")]:
            fields |= {field: options[option]} if option in options else {}
        return scenario("3.4", f"head/{name}", what, head, **ALL_KEYS, file_id=FILE_ID, file_key=FILE_KEY,
                        **{"class": A}, chunk_size=1 << exponent, wrap_counter=1, origin="verified",
                        content_counter=options.get("counter", 0), size=size, **fields)

    last = 2**62 - 1
    yield chunked("chunked-0", "a chunked file of no bytes", 0)
    yield chunked("chunked-5000", "two chunks", 5000)
    yield chunked("chunked-64-kib", "chunks of 64 KiB", 70_000, 16)
    yield chunked("chunked-largest", "every number at its highest", 2**60, counter=last, seals=last, redo=2**62,
                  epoch=2**64 - 1)
    yield chunked("holes-2", "two hole runs", 40_960, holes=[(0, 1), (3, 4)])
    yield chunked("holes-all", "a file of one hole", 2**60, holes=[(0, 2**48)])
    yield chunked("holes-32", "as many hole runs as there are", 4096 * 64, holes=[(2 * i, 1) for i in range(32)])
    yield chunked("redo-offset", "an open area", 5000, redo=20_480, epoch=EPOCH)
    yield chunked("redo-offset-at-home", "an area where the last chunk could end", 4096 * 4096,
                  redo=8192 + 4096 * 4124, epoch=1)


def broken_heads():
    def made(name, what, expect, build, exponent=12, prefix=None):
        file = File(f"head/{name}", exponent, patch=prefix)
        return scenario("3", f"head/{name}", what, build(file), expect, **ALL_KEYS)

    def inline(name, what, expect, prefix=None, text=b"hello", **options):
        return made(name, what, expect, lambda f: f.inline_head(text, **options), prefix=prefix)

    yield inline("check", "a byte changed afterwards", "damaged head", late={4063: b"\1"})
    yield inline("magic", "another magic under a good check", "not ours", {0: b"\x88"})
    for name, what, offset, new in [("version-0", "version 0", 8, u16(0)), ("version-2", "version 2", 8, u16(2)),
                                    ("features", "an unknown feature", 12, u32(1 << 31)),
                                    ("cipher-0", "cipher 0", 16, b"\0"), ("cipher-2", "cipher 2", 16, b"\2")]:
        yield inline(name, what, "unsupported", {offset: new})
    for exponent in (0, 11, 13, 255):
        yield inline(f"chunk-size-{exponent}", f"chunks of 2^{exponent} bytes", "unsupported", {17: bytes([exponent])})
    for length in (0, 4095, 8192):
        yield inline(f"head-length-{length}", f"head length {length}", "damaged head", {10: u16(length)})
    for offset in (18, 23, 40, 63):
        yield inline(f"prefix-reserved-{offset}", f"a non-zero byte at {offset}", "damaged head", {offset: b"\1"})
    yield inline("behind-inline", "a byte behind the inline file", "damaged head", patch={384 + 33: b"\1"})
    yield inline("before-check", "a byte before the check", "damaged head", patch={4063: b"\1"})
    yield made("behind-content", "a byte behind the content record", "damaged head",
               lambda f: f.head(None, f.content(5000), patch={384: b"\1"}))

    def wrap(name, what, expect="damaged wrap record", **options):
        return made(f"wrap-{name}", what, expect, lambda f: f.inline_head(b"hello", wrap=f.wrap(**options)))

    yield wrap("counter-0", "counter 0", patch={0: u64(0)})
    yield wrap("counter-2-62", "counter 2^62", patch={0: u64(2**62)})
    for number in (0, 5, 8, 255):
        yield wrap(f"class-{number}", f"class {number}", patch={8: bytes([number])})
    for number in (6, 7):
        yield wrap(f"class-{number}", f"class {number}, reserved", "unsupported", patch={8: bytes([number])})
    for algorithm in (0, 3):
        patch = {9: bytes([algorithm])}
        yield wrap(f"algorithm-{algorithm}", f"wrap algorithm {algorithm}", "unsupported", patch=patch)
    yield wrap("algorithm-of-b", "class A with class B's algorithm", patch={9: b"\2"})
    yield wrap("algorithm-of-a", "class B with class A's algorithm", number=B, patch={9: b"\1"})
    yield wrap("verdict-3", "verdict 3", patch={10: b"\3"})
    yield wrap("origin-key-3", "MAC key 3", patch={11: b"\3"})
    yield wrap("generation-0", "generation 0", generation=0)
    yield wrap("behind-wrap", "a byte behind the 40 bytes of a wrap", patch={32 + 40: b"\1"})
    yield wrap("behind-wrap-end", "the last byte behind the 40 bytes of a wrap", patch={103: b"\1"})
    yield wrap("origin-generation-of-device", "a generation for a MAC under the device key", origin="device",
               patch={136: u32(1)})
    yield wrap("origin-generation-0", "no generation for a MAC under C", patch={136: u32(0)})
    yield wrap("origin-verdict-without-key", "a verdict without a MAC", origin=None, patch={10: b"\1"})
    yield wrap("origin-mac-without-key", "a MAC without a key", origin=None, patch={140: b"\1"})
    yield wrap("origin-generation-without-key", "a generation without a MAC", origin=None, patch={136: u32(1)})
    yield wrap("reserved-172", "a non-zero byte at 172", patch={172: b"\1"})
    yield wrap("reserved-175", "a non-zero byte at 175", patch={175: b"\1"})
    yield wrap("seal-under-other-key", "a seal under another head key", seal_key=run(3))
    yield wrap("seal-of-other-counter", "a seal with another index", index=2)
    yield made("wrap-of-other-prefix", "a wrap record sealed with another prefix", "damaged wrap record", lambda f:
               f.inline_head(b"hello", wrap=File(f.name + "'", fid=FILE_ID, patch={17: b"\x10"}).wrap(origin="c")))
    record = "damaged wrap"
    for number, letter in [(C, "c"), (D, "d")]:
        yield made(f"wrap-of-{letter}", f"wrapped for class {letter.upper()}", record, lambda f: f.inline_head(
            b"hello", wrap=f.wrap(wrapped=f.wrapped(number, 1, CLASS_KEYS[A], UUID))))
    yield made("wrap-of-generation-2", "wrapped for another generation", record, lambda f: f.inline_head(
        b"hello", wrap=f.wrap(wrapped=f.wrapped(A, 2, CLASS_KEYS[A], UUID))))
    yield made("wrap-of-other-keybag", "wrapped for another keybag", record, lambda f: f.inline_head(
        b"hello", wrap=f.wrap(wrapped=f.wrapped(A, 1, CLASS_KEYS[A], OTHER_UUID))))
    yield made("wrap-under-other-key", "wrapped under another class key", record, lambda f: f.inline_head(
        b"hello", wrap=f.wrap(wrapped=f.wrapped(A, 1, CLASS_KEYS[C], UUID))))
    yield made("wrap-of-b-for-other", "wrapped for another public key", record, lambda f: f.inline_head(
        b"hello", wrap=f.wrap(B, wrapped=f.wrapped(B, 1, run(0x62), UUID))))
    yield made("wrap-of-b-zero", "an ephemeral key of zero bytes", record, lambda f: f.inline_head(
        b"hello", wrap=f.wrap(B, wrapped=bytes(32) + f.wrapped(B, 1, CLASS_KEYS[B], UUID)[32:])))
    yield wrap("foreign-keybag", "another keybag's UUID", "foreign keybag", uuid=OTHER_UUID)
    yield wrap("generation-2", "a generation that the keybag does not hold", "key lost", generation=2)
    yield made("commitment", "the commitment of another key", "damaged key commitment", lambda f: f.inline_head(
        b"hello", wrap=f.wrap(commitment=File("", key=OTHER_FILE_KEY).commitment)))
    yield made("commitment-of-other-file", "the commitment for another file id", "damaged key commitment",
               lambda f: f.inline_head(b"hello", wrap=f.wrap(commitment=File("", fid=OTHER_FILE_ID).commitment)))
    yield made("wrapped-other-key", "another file key, with its own commitment", "damaged wrap record",
               lambda f: f.inline_head(b"hello", wrap=f.wrap(
                   wrapped=f.wrapped(A, 1, CLASS_KEYS[A], UUID, OTHER_FILE_KEY),
                   commitment=File("", key=OTHER_FILE_KEY).commitment)))

    def content(name, what, size=40_960, expect="damaged content record", **options):
        def build(f):
            record = f.content(size, **options)
            is_inline = options.get("inline", size <= 3584)
            return f.head(None, record, f.inline(ramp(size)) if is_inline and size <= 3600 else b"")
        return made(f"content-{name}", what, expect, build)

    yield content("counter-2-62", "counter 2^62", counter=2**62)
    yield content("seal-count-2-62", "seal count 2^62", seals=2**62)
    yield content("size", "more than 2^60 bytes", size=2**60 + 1)
    yield content("size-inline", "size and inline length differ", size=5, patch={8: u64(6)})
    yield content("inline-3585", "an inline length of 3,585", size=3585, inline=True)
    yield content("inline-chunk-count", "chunks in an inline file", size=5, patch={16: u64(1)})
    yield content("inline-holes", "a hole run in an inline file", size=5, holes=EMPTY_HOLE)
    yield content("inline-redo", "an area of an inline file", size=5, redo=8192, epoch=1)
    yield content("inline-epoch", "an epoch of an inline file", size=5, epoch=1)
    for count in (0, 9, 11):
        yield content(f"chunk-count-{count}", f"{count} chunks where 10 belong", patch={16: u64(count)})
    yield content("redo-unaligned", "a redo offset that is no multiple of 4,096", redo=2**20 + 1, epoch=1)
    yield content("redo-before-home", "a redo offset within the chunks", redo=49_152, epoch=1)
    yield content("redo-too-high", "a redo offset above 2^62", redo=2**62 + 4096, epoch=1)
    yield content("redo-without-epoch", "a redo offset without an epoch", redo=2**20)
    yield content("epoch-without-redo", "an epoch without a redo offset", epoch=1)
    yield content("runs-33", "33 hole runs", size=4096 * 66, holes=[(2 * i, 1) for i in range(33)])
    yield content("runs-65535", "65,535 hole runs", patch={52: u16(65_535)})
    for offset in (54, 55, 56, 87):
        yield content(f"reserved-{offset}", f"a non-zero byte at {offset}", patch={offset: b"\1"})
    yield content("hole-empty", "a hole run of no chunk", holes=[(1, 0)])
    yield content("hole-beyond", "a hole run beyond the chunk count", holes=[(9, 2)])
    yield content("hole-at-count", "a hole run that begins at the chunk count", holes=[(10, 1)])
    yield content("hole-overflow", "a hole run whose end is beyond 2^64", holes=[(9, 2**64 - 1)])
    yield content("holes-touching", "hole runs that touch", holes=[(1, 2), (3, 1)])
    yield content("holes-overlapping", "hole runs that overlap", holes=[(1, 3), (3, 2)])
    yield content("holes-descending", "hole runs in descending order", holes=[(5, 1), (1, 1)])
    yield content("holes-twice", "the same hole run twice", holes=[(5, 1), (5, 1)])
    yield content("hole-in-empty", "a hole run in a file of no chunks", size=0, inline=False, holes=EMPTY_HOLE)
    yield content("seal-under-other-key", "a seal under another head key", seal_key=run(3))
    yield content("seal-of-other-counter", "a seal with another index", index=1)
    yield made("content-of-other-file", "a content record sealed for another file id", "damaged content record",
               lambda f: f.head(None, File(f.name + "'", fid=OTHER_FILE_ID, key=FILE_KEY).content(40_960)))
    sealed = "damaged inline file"
    yield made("inline-of-other-counter", "an inline file of another commit", sealed,
               lambda f: f.head(None, f.content(5, 1), f.inline(b"hello", 0)))
    yield made("inline-as-chunk", "a chunk's seal where an inline file belongs", sealed,
               lambda f: f.head(None, f.content(5), f.chunk(0, b"hello")))
    yield made("inline-zero", "zero bytes instead of an inline file", sealed,
               lambda f: f.head(None, f.content(5), bytes(33)))


def wraps():
    """File keys under class keys, as they stand in wrap records."""
    for number, letter in zip(CLASS_KEYS, "abcd"):
        for generation in (1, 0x01020304):
            name = f"wrap/{letter}-generation-{generation}"
            stored = File("").wrapped(number, generation, CLASS_KEYS[number], UUID)
            yield scenario("3.3", name, f"class {letter.upper()}", stored[: 72 if number == B else 40], keybag=UUID,
                           **{"class": number}, generation=generation, class_key=CLASS_KEYS[number], file_key=FILE_KEY)


def join_seals():
    def made(name, what, expect="nothing", kind=5, index=0, exponent=12, log=b"/home/ann/log", sealed_for=None, cut=None,
             fid=FILE_ID, key=FILE_KEY, text=b""):
        file = File(f"join-seal/{name}", exponent, fid, key)
        seal = file.seal(file.head_key, file.aad(kind, index, log if sealed_for is None else sealed_for), text)
        return scenario("2.8", f"join-seal/{name}", what, seal[:cut], expect, file_id=FILE_ID, file_key=FILE_KEY,
                        chunk_size=1 << exponent, log=log)

    yield made("small", "a segment with 4 KiB chunks", "success")
    yield made("large", "a segment with 64 KiB chunks", "success", exponent=16)
    yield made("not-text", "a path that is no text", "success", log=b"/\xff\n \xc3")
    yield made("other-log", "for a log whose name is longer", sealed_for=b"/home/ann/log.1")
    yield made("shorter-log", "for a log whose name is shorter", sealed_for=b"/home/ann/lo")
    yield made("no-log", "for no log", sealed_for=b"")
    yield made("other-file", "of another segment", fid=OTHER_FILE_ID)
    yield made("other-key", "under another file key", key=OTHER_FILE_KEY)
    for kind in range(1, 5):
        yield made(f"kind-{kind}", f"a seal of kind {kind}", kind=kind)
    yield made("index-1", "with the index 1", index=1)
    yield made("with-text", "a seal of a text", text=b"x")
    yield made("cut", "without its last byte", cut=27)
    yield made("empty", "no seal", cut=0)


def redo_records():
    size, before = 4096 * 9 + 100, 4

    def made(name, what, build, expect="success", exponent=12, chunks=None, holes="", new_size=size):
        file = File(f"redo-record/{name}", exponent)
        fields = {} if chunks is None else {"size": new_size, "holes": holes} | {
            f"chunk {index}": shown(text) for index, text in chunks}
        return scenario("3.6", f"redo-record/{name}", what, build(file), expect, file_id=FILE_ID, file_key=FILE_KEY,
                        chunk_size=1 << exponent, epoch=EPOCH, redo_offset=61_440 if exponent == 12 else 2**20,
                        content_counter_before=before, **fields)

    def record(name, what, expect="damaged redo record", new_size=size, chunks=((9, 100),), content=None, **options):
        """`chunks`: index and length of the text."""
        def build(f):
            stored = f.content(new_size, **{"counter": before + 1, "inline": False} | (content or {}))
            return f.redo(stored, [(i, f.chunk(i, ramp(m))) for i, m in chunks], **options)
        texts = [(i, ramp(m)) for i, m in chunks] if expect == "success" else None
        holes = " ".join(f"{first}+{length}" for first, length in (content or {}).get("holes", ()))
        return made(name, what, build, expect, chunks=texts, holes=holes, new_size=new_size)

    yield record("one-chunk", "a partial last chunk", "success")
    yield record("two-chunks", "a whole chunk and the last one", "success", chunks=[(0, 4096), (9, 100)])
    yield record("no-chunk", "a commit that shrinks to a chunk border", "success", new_size=4096 * 3, chunks=[])
    yield record("of-nothing", "a commit that leaves no byte", "success", new_size=0, chunks=[])
    yield record("with-holes", "a commit beside holes", "success", content={"holes": [(1, 2), (4, 5)]})
    yield record("as-far-as-the-area", "as many chunks as lie before the area", "success",
                 new_size=4096 * 12, chunks=[])
    yield made("64-kib", "a partial chunk of a file with 64 KiB chunks", lambda f: f.redo(
        f.content(100, before + 1, inline=False), [(0, f.chunk(0, ramp(100)))]), exponent=16, new_size=100,
        chunks=[(0, ramp(100))])
    none = "no record"
    yield record("magic", "another magic", none, magic=b"PFSREDO2")
    yield record("file-id", "another file id", none, fid=OTHER_FILE_ID)
    yield record("epoch", "another epoch", none, epoch=OTHER_EPOCH)
    yield record("length-195", "a length below the shortest record's", none, length=195)
    yield record("length-2-26", "a length above 2^26", none, length=2**26 + 1)
    yield record("length-beyond", "a length beyond the end of the file", none, length=353)
    yield record("check", "a byte of the chunk changed afterwards", none, late={200: b"\1\1"})
    yield record("length-shorter", "a length one byte less than the record's", none, length=339)
    yield record("content-length-115", "k one less", k=115)
    yield record("content-length-132", "k that does not fit r", k=132)
    yield record("content-length-629", "k longer than any content record", k=629)
    yield record("content-length-0", "no content record", k=0)
    yield record("chunks-too-few", "n one less than there are", n=0)
    yield record("chunks-too-many", "n one more than there are", n=2)
    yield record("chunks-many", "the highest n", n=2**32 - 1)
    yield record("extra", "a byte behind the chunks", extra=b"\0")
    yield record("counter-equal", "the counter of the record before", content={"counter": before})
    yield record("counter-skips", "a counter that is not the successor", content={"counter": before + 2})
    yield made("inline", "an inline file's content record", lambda f: f.redo(f.content(100, before + 1), []),
               "damaged redo record")
    yield record("redo-offset", "a content record with an area", content={"redo": 61_440, "epoch": EPOCH})
    yield record("beyond-area", "more chunks than lie before the area", new_size=4096 * 13, chunks=[])
    yield record("index-at-count", "a chunk at the chunk count", chunks=[(9, 100), (10, 100)])
    yield record("index-descending", "chunks in descending order", chunks=[(9, 100), (0, 4096)])
    yield record("index-twice", "a chunk twice", chunks=[(9, 100), (9, 100)])
    yield record("index-in-run", "a chunk in a hole run", content={"holes": [(8, 2)]})
    yield record("chunk-reserved", "a non-zero byte behind m", patch={48 + 116 + 12: b"\1"})
    yield record("chunk-one-less", "m one less than its size wants", chunks=[(9, 99)])
    yield record("chunk-one-more", "m one more than its size wants", chunks=[(9, 101)])
    yield record("chunk-whole", "the last chunk as a whole one", chunks=[(9, 4096)])
    content = "damaged content record"
    yield record("content-reserved", "a non-zero byte in the content record", content, content={"patch": {56: b"\1"}})
    yield record("content-chunk-count", "a wrong chunk count", content, content={"patch": {16: u64(11)}})
    yield record("content-runs-33", "33 hole runs", content, content={"patch": {52: u16(33)}})
    yield record("content-seal-under-other-key", "a content record sealed under another key", content,
                 content={"seal_key": run(3)})
    yield record("content-seal-of-other-counter", "a content record sealed with another index", content,
                 content={"index": before})
    yield made("chunk-of-other-index", "the sealed bytes of another chunk", lambda f: f.redo(
        f.content(size, before + 1), [(9, f.chunk(8, ramp(100)))]), "damaged chunk")
