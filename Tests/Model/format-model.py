#!/usr/bin/env python3
"""The executable model of the commit rules of docs/reference/FORMAT.md: one file on a disk that loses, tears and reorders.

It shares no code with Sources/ and is held against the rules, not against the implementation: a rule is extended here
and survives `run` before it changes there. Sizes are scaled down (sectors of 32 bytes, chunks of 64), so that a few
seconds visit states that real sizes would take days to reach.

  format-model.py run SEED SECONDS [off=rule,rule]   random worlds: writer + class changer + lock-free readers + a program
                                                     that appends foreign bytes, kills, power cuts (per-sector subsets),
                                                     second crashes; exit status 1 after a violation
  format-model.py tamper SEED N                      flips, truncations, appends, replays on cleanly closed files
  format-model.py flushes                            flushes of every operation, counted
  format-model.py mutate SEED SECONDS [PART OF]      switch off one rule at a time, print the violations
  format-model.py foreign SEED SECONDS               the same for the rules of foreign bytes; each must lose some

The format has no reservation commit (rule "resv": FORMAT.md §3.8 says what is counted instead), and fresh chunks may go
home ahead of a commit: `run SEED SECONDS off=resv` explores that.

Environment: SECTOR=64 another sector size, DIRECT=1 one-byte overwrites that are often spilled.
Every disk access is a yield: the driver interleaves processes between any two of them, splits reads and writes
at PAGE, and samples power cuts in between.  Crypto is a toy (blake2 MAC + XOR) with the real structure.
Two things are one step here that are two system calls, microseconds apart: the look at the length and the first page of a
write that makes the file longer, and the look at the length and a cut.  A file saved beside lasts as soon as it is there.
Nobody appends in the middle of a write: the kernel locks the inode.
"""
import os, sys, random, hashlib, struct, time
from collections import Counter
S, PAGE, H, C, INL, GAP, STEP, MAXRUN = int(os.environ.get('SECTOR', 32)), 128, 384, 64, 100, 2, 8, 3; F = C + 28; OFF = set()
RULES = """flushfirst freshflush redo emptyflush flipflush chain epoch both bothflush reread tornretry recpeek
retry growempty shrinkempty resv mirror closeempty partial classflush slotlock newslot lockrepair idleflush recheck openlock spillflush ovfresh ownarea""".split()
FOREIGN = 'begin proved grow newhead cutlook savefirst again markfirst'.split()     # §4 rule 16; the last one only keeps noise away
def on(r): return r not in OFF
class Rec: pass                                 # content record, head, or loaded state
class Damaged(Exception): pass
class Violation(Exception): pass
R = random.Random(1); FID = b'fileid00'
def mac(k, *p): return hashlib.blake2b(b''.join(p), key=k, digest_size=16).digest()
def xor(k, n, d): s = hashlib.shake_128(k + n).digest(len(d)); return bytes(a ^ b for a, b in zip(d, s))
def seal(k, aad, pt): n = R.randbytes(12); ct = xor(k, n, pt); return n + ct + mac(k, aad, n, ct)
def unseal(k, aad, b):
    if len(b) < 28 or mac(k, aad, b[:12], b[12:-16]) != b[-16:]: raise Damaged('auth ' + aad.decode('latin1')[:12])
    return xor(k, b[:12], b[12:-16])
def caad(i): return FID + b'chunk' + struct.pack('<I', i)
CLASSKEY = {c: hashlib.sha256(b'class%d' % c).digest()[:16] for c in range(4)}
def home(i): return 2 * H + i * F
def nch(size): return -(-size // C)
NONZERO = bytes([255] + list(range(1, 256)))
CF, CR, WR = '<QIQQQQHB24s', 71 + 28, 1 + 8 + 16 + 8 + 28
def runs_of(holes):
    r = []
    for i in sorted(holes):
        if r and r[-1][0] + r[-1][1] == i: r[-1][1] += 1
        else: r.append([i, 1])
    return r
def make_cr(key, size, ctr, redo, epoch, seals, inl, holes):
    rs = runs_of(holes); f = struct.pack(CF, size, nch(size), ctr, redo, epoch, seals, inl, len(rs), b''.join(struct.pack('<II', *x) for x in rs))
    return f + seal(key, FID + b'content' + f, b'')
def parse_cr(b, key=None):
    if key is not None: unseal(key, FID + b'content' + b[:71], b[71:])
    c = Rec(); c.b = b
    c.size, c.count, c.ctr, c.redo, c.epoch, c.seals, c.inl, n, rr = struct.unpack(CF, b[:71]); c.holes = set()
    for j in range(n): a, m = struct.unpack_from('<II', rr, 8 * j); c.holes |= set(range(a, a + m))
    return c
def make_wr(key, cls, ctr):
    f = struct.pack('<BQ', cls, ctr) + xor(CLASSKEY[cls], b'w' + struct.pack('<Q', ctr), key) + mac(key, b'commit')[:8]; return f + seal(key, FID + b'wrap' + f, b'')
def open_wr(b):
    cls, ctr = struct.unpack('<BQ', b[:9])
    if cls > 3: raise Damaged('class')
    key = xor(CLASSKEY[cls], b'w' + b[1:9], b[9:25])
    if mac(key, b'commit')[:8] != b[25:33]: raise Damaged('commitment')
    unseal(key, FID + b'wrap' + b[:33], b[33:]); return key
def make_head(wr, cr, inl=b''): b = (b'PFS1' + FID + wr + cr + inl).ljust(H - 16, b'\0'); return b + hashlib.sha256(b).digest()[:16]
def parse_head(b):
    if len(b) < H or b[:12] != b'PFS1' + FID or hashlib.sha256(b[:-16]).digest()[:16] != b[-16:]: return None
    h = Rec(); h.b = b; h.wr = b[12:12 + WR]; h.cr = b[12 + WR:12 + WR + CR]; h.rest = b[12 + WR + CR:-16]
    h.wctr = struct.unpack('<Q', h.wr[1:9])[0]; h.gen = h.wctr + parse_cr(h.cr).ctr; return h
def pick(hs):
    if hs[0] and (not hs[1] or hs[0].gen >= hs[1].gen): return 0
    if hs[1]: return 1
    raise Damaged('no valid head')
RH = 4 + 8 + 8 + 4 + 2
def make_rec(epoch, prev, cr, chunks):
    body = cr + b''.join(struct.pack('<II', i, len(s)) + s for i, s in chunks); b = b'REDO' + FID + struct.pack('<QIH', epoch, RH + len(body) + 16, len(chunks)) + body
    return b + hashlib.sha256((prev if on('chain') else b'') + b).digest()[:16]
def heads(): b0 = yield ('r', 0, H); b1 = yield ('r', H, H); return [parse_head(b0), parse_head(b1)]
def load(keyed=True, hs=None):
    if hs is None: hs = yield from heads()
    st = Rec(); st.slot = pick(hs); st.hs = hs; h = hs[st.slot]; st.h = h
    st.key = open_wr(h.wr) if keyed else None; st.hc = st.c = parse_cr(h.cr, st.key); st.ov = {}; st.end = st.c.redo; st.prev = b''; st.nrec = 0
    n = yield ('len',)
    if h.gen > 1 and n < 2 * H: raise Damaged('no second slot')
    if st.c.redo: yield from scan(st)
    st.inl = h.rest; return st
def scan(st):                                   # in force: chain of good records from st.end on
    while 1:
        b = yield ('r', st.end, RH)
        if len(b) < RH or b[:4] != b'REDO' or b[4:12] != FID: return
        ep, ln, n = struct.unpack('<QIH', b[12:])
        if ep != st.hc.epoch or not RH + CR + 16 <= ln < 1 << 20: return
        b = yield ('r', st.end, ln)
        if len(b) < ln or hashlib.sha256((st.prev if on('chain') else b'') + b[:-16]).digest()[:16] != b[-16:]: return
        st.c = parse_cr(b[RH:RH + CR], st.key); p = RH + CR
        for _ in range(n): i, m = struct.unpack_from('<II', b, p); st.ov[i] = b[p + 8:p + 8 + m]; p += 8 + m
        st.prev = b[-16:]; st.end += ln; st.nrec += 1
def clen(c, i): return min(C, c.size - i * C)
def content(st):
    c = st.c
    if c.inl != 0xffff: return unseal(st.key, FID + b'inline' + struct.pack('<Q', c.ctr), st.inl[:c.size + 28])
    out = []
    for i in range(c.count):
        n = clen(c, i)
        if i in c.holes: out.append(bytes(n)); continue
        s = st.ov[i] if i in st.ov else (yield ('r', home(i), n + 28)); d = unseal(st.key, caad(i), s)
        if len(d) != n: raise Damaged('length')
        out.append(d)
    return b''.join(out)
def reader(cache):                              # one whole-file read, lock-free, then one retry under the shared lock
    for locked in (False, True):
        if locked: yield ('lock', 's')
        try:
            hs = yield from heads()
            if None in hs and on('tornretry') and not locked and (yield ('len',)) > H: continue
            old = cache.get('st')
            if old and hs[pick(hs)].gen == old.h.gen:
                st = old
                if st.hc.redo and on('recpeek'): yield from scan(st)
            else: st = yield from load(hs=hs)
            if st.hc.redo and on('recheck') and not locked:      # the area may have been emptied while it was scanned
                hs = yield from heads()
                if None in hs or hs[pick(hs)].gen != st.h.gen: cache.clear(); continue
            cache['st'] = st; d = yield from content(st)
            if locked: yield ('unlock',)
            return d
        except Damaged:
            cache.clear()
            if locked or not on('retry'): raise
def extent(c):
    return max([2 * H] + [home(i) + clen(c, i) + 28 for i in ([c.count - 1] if c.count else []) if i not in c.holes]
               + [home(i + 1) for i in range(c.count - 1) if i not in c.holes])
def ext(c, gen): return H if gen == 1 else extent(c) if c.inl == 0xffff else 2 * H
def foreign_at(b, start, key):                  # where in the tail b, which lies at start, what is not ours begins; None: nothing
    def opens(i, x):
        try: unseal(key, caad(i), x); return True
        except Damaged: return False
    own = 0; i = max(0, -(-(start - 2 * H) // F))
    while home(i) - start < len(b):
        p = home(i) - start; x = b[p:p + F]
        if opens(i, x): own = p + len(x)
        i += 1
    p = b.find(b'REDO' + FID)
    while p >= 0:                               # whole records, of any area or none: marks
        if p + RH <= len(b):
            ln = struct.unpack('<QIH', b[p + 12:p + RH])[1]; r = b[p:p + ln]
            if RH + CR + 16 <= ln == len(r) and any(hashlib.sha256(q + r[:-16]).digest()[:16] == r[-16:] for q in (b'', b[max(p - 16, 0):p])): own = max(own, p + ln)
        p = b.find(b'REDO' + FID, p + 1)
    left = lambda: next((k for k in range(own, len(b)) if b[k]), None)
    p = left()
    if p is not None and start + p >= 2 * H:    # a chunk that was to be the last one, and may have any length
        i = (start + p - 2 * H) // F; q = home(i) - start
        if q >= own: own = next((q + m for m in range(29, min(F, len(b) - q)) if opens(i, b[q:q + m])), own); p = left()
    return None if p is None else start + p
def move(start):                                # saves all from start on beside the file, then cuts it off
    if not on('savefirst'):
        n = yield ('len',); b = yield ('r', start, n - start)
        yield ('t', start); yield ('save', b); return
    saved = start
    while 1:
        n = yield ('len',)
        if n <= saved: return
        b = yield ('r', saved, n - saved); yield ('save', b); saved = n
        if not on('again'): yield ('t', start); return
        if (yield ('tif', saved, start)) is None: return
class Handle:
    def __init__(h, W): h.W = W; h.first = True; h.loose = False; h.end = h.free = 0
    def open(h):
        if on('openlock'): yield ('lock', 's')  # never judge a torn head while somebody may be writing it
        st = yield from load(); h.st = st
        if on('openlock'): yield ('unlock',)
        d = yield from content(st); h.data = bytearray(d); h.dirty = set(); h.holes = set(st.c.holes); h.used = h.resv = st.c.seals; h.mine = None; h.ahead = set()
        h.key = st.key; h.wr = st.h.wr
    def guard(h):
        if h.first:                             # under the slot lock: what we read becomes durable before we overwrite anything
            hs, s = yield from h.lock_heads(); h.mine = hs[s].b; h.first = False; st = h.st; gen = hs[s].gen; x = ext(st.c, gen)
            h.end = h.free = n = yield ('len',); own = st.end if st.nrec else x
            closed = not st.hc.redo and (gen == 1 or hs[0] and hs[1] and hs[0].b == hs[1].b)
            if n > own and on('begin') and (closed or on('proved')):
                b = yield ('r', own, n - own); a = foreign_at(b, own, h.key)
                if a is not None: yield from move(a); h.end = h.free = a
            if not st.hc.redo and h.end > x: yield from h.cut(x)    # what a dead writer left; an area is emptied
            yield from h.unlock()
    def lock_heads(h):                          # slot lock, re-read, take the other record verbatim
        if on('slotlock'): yield ('lock', 'x')
        hs = yield from heads(); s = pick(hs)
        if on('flushfirst') and hs[s].b != h.mine: yield ('f',)
        if hs[s].gen > 1: h.end = max(h.end, 2 * H); h.free = max(h.free, 2 * H)    # a class change wrote the second head
        return hs, s
    def put(h, o, b, *seal, locked=False, rule='grow'):     # a write; one that makes the file longer looks at the length first
        while o + len(b) > h.end:
            if not on(rule): h.end = h.free = o + len(b); break
            n = yield ('wif', h.end, o, b, *seal)
            if n is None: h.end = h.free = o + len(b); return
            yield from h.keep(locked)
        yield ('w', o, b, *seal)
    def keep(h, locked):                        # what another program has appended by now
        if not locked: yield from h.lock_heads()
        yield from move(h.end)
        if not locked: yield from h.unlock()
    def cut(h, n, locked=True):
        while on('cutlook') and (yield ('tif', h.end, n)) is not None: yield from h.keep(locked)
        if not on('cutlook'): yield ('t', n)
        h.end = h.free = n
    def unlock(h):
        if on('slotlock'): yield ('unlock',)
    def put_head(h, cr, inl=b'', flush=True, keep=False):
        hs, s = yield from h.lock_heads(); b = make_head(hs[s].wr if on('reread') else h.wr, cr, inl)
        yield from h.put(H * (1 - s) if on('newslot') else H * s, b, locked=True, rule='newhead'); h.mine = b
        if flush: yield ('f',)
        c = parse_cr(cr); h.st.c = h.st.hc = c; h.st.ov = {}; h.st.end = c.redo; h.st.prev = b''; h.st.nrec = 0
        h.st.inl = inl
        if not keep: yield from h.unlock()
    def put_rec(h, cr, chunks, locked=False, flush=True):
        if not locked: yield from h.lock_heads()
        st = h.st; b = make_rec(st.hc.epoch, st.prev, cr, chunks)
        o = st.end + len(b); room = b''
        if o > h.free and on('markfirst'):      # the mark first: a record of no area behind room for the next records
            room = bytes(max(min(st.end - st.hc.redo, 3 * C), max(o, h.end) - o)); o += len(room)
            yield from h.put(o, make_rec(0, b'', st.c.b, []), locked=True); h.free = o
        yield from h.put(st.end, b + room, locked=True); st.prev = b[-16:]; st.end += len(b); st.nrec += 1
        if flush: yield ('f',)
        h.loose = not flush
        for i, s in chunks: st.ov[i] = s
        st.c = parse_cr(cr); yield from h.unlock()
    def chunk(h, i): h.used += 1; return seal(h.key, caad(i), bytes(h.data[i * C:(i + 1) * C]))
    # -- operations on the handle's plaintext --
    def extend(h, n):
        o = len(h.data)
        if n <= o: return
        if o % C and o // C not in h.holes and on('partial'): h.dirty.add(o // C); h.ahead.discard(o // C)
        h.holes |= set(range(nch(o), nch(n))); h.data += bytes(n - o)
    def write(h, off, d):
        h.extend(off); o = len(h.data)
        if off + len(d) > o:
            if o % C and o // C not in h.holes and on('partial'): h.dirty.add(o // C); h.ahead.discard(o // C)
            h.data += bytes(off + len(d) - o)
        h.data[off:off + len(d)] = d; t = set(range(off // C, nch(off + len(d)))); h.dirty |= t; h.holes -= t; h.ahead -= t
    def shrink(h, n):
        if n >= len(h.data): return
        yield from h.guard(); del h.data[n:]; k = nch(n); h.holes = {i for i in h.holes if i < k}; h.dirty = {i for i in h.dirty if i < k}; h.ahead = {i for i in h.ahead if i < k - 1 or n % C == 0 and i < k}
        if n % C and n // C not in h.holes: h.dirty.add(n // C)
        yield from h.sync()
        if on('shrinkempty') and h.st.hc.redo: yield from h.empty()
        elif on('shrinkempty') and h.st.c.inl == 0xffff: yield from h.cut(extent(h.st.c), False)
    def old_cr(h, seals, redo=0, epoch=0): c = h.st.c; return make_cr(h.key, c.size, c.ctr + 1, redo, epoch, seals, c.inl, c.holes)
    def sync(h, spill=False):
        c = h.st.c; size = len(h.data)
        if not h.dirty and size == c.size:      # nothing of ours: still flush what a dead writer or a spill left
            if not spill:
                if on('idleflush') and (h.first or h.loose): yield ('f',)
                h.loose = False; h.W.ack()
            return
        h.W.issue(bytes(h.data)); fl = not spill; f = h.first; yield from h.guard()
        if f and h.st.hc.redo and on('ownarea'): yield from h.empty(); c = h.st.c   # never append to a dead writer's area
        if c.inl != 0xffff and size <= INL:
            h.holes = set(); h.dirty = set(); ctr = c.ctr + 1
            inl = seal(h.key, FID + b'inline' + struct.pack('<Q', ctr), bytes(h.data)); yield from h.put_head(make_cr(h.key, size, ctr, 0, 0, h.resv, size, ()), inl); return h.W.ack()
        if c.inl != 0xffff: h.dirty = set(range(nch(size))) - h.holes
        while len(runs_of(h.holes)) > MAXRUN: a, m = min(runs_of(h.holes), key=lambda x: x[1]); t = set(range(a, a + m)); h.holes -= t; h.dirty |= t
        n = nch(size)
        if h.st.hc.redo and home(n) > h.st.hc.redo and on('growempty'): yield from h.empty()
        c = h.st.c; cc = 0 if c.inl != 0xffff else c.count
        fresh = {i for i in h.dirty if (i >= cc or i in c.holes) and not (i in h.st.ov and on('ovfresh'))}; over = h.dirty - fresh
        if not on('redo'): fresh, over = h.dirty, set()
        if (over or h.st.hc.redo) and len(fresh - h.ahead) <= 1: over, fresh = over | (fresh - h.ahead), fresh & h.ahead
        redo, epoch = home(max(n, c.count) + GAP), R.getrandbits(64) if on('epoch') else 7
        if h.used + len(h.dirty) > h.resv:
            r = h.resv + STEP + len(h.dirty)
            if on('resv'):
                if h.st.hc.redo: yield from h.put_rec(h.old_cr(r), [])
                elif over: yield from h.put_head(h.old_cr(r, redo, epoch))
                elif c.inl != 0xffff:
                    ctr = c.ctr + 1; d = unseal(h.key, FID + b'inline' + struct.pack('<Q', c.ctr), h.st.inl[:c.size + 28])
                    yield from h.put_head(h.old_cr(r), seal(h.key, FID + b'inline' + struct.pack('<Q', ctr), d))
                else: yield from h.put_head(h.old_cr(r))
            h.resv = r
        for i in first_last(fresh - h.ahead): yield from h.put(home(i), h.chunk(i), 1)
        h.ahead = set()
        if fresh and on('freshflush'): yield ('f',)
        locked = False
        if over and not h.st.hc.redo:           # opening: the head and the first record share one flush
            yield from h.put_head(h.old_cr(h.resv, redo, epoch), flush=False, keep=True); locked = True
        ch = [(i, h.chunk(i)) for i in sorted(over)]; h.W.sealed_later(len(ch))
        # the record's content record says redo 0: it is, byte for byte, the one the head carries after emptying
        cr = make_cr(h.key, size, h.st.c.ctr + 1, 0, 0, h.resv, 0xffff, h.holes)
        if h.st.hc.redo: yield from h.put_rec(cr, ch, locked, fl)
        else: yield from h.put_head(cr)
        h.dirty = set(); h.W.ack(spill and bool(h.st.hc.redo))
    def early(h):                               # rule 6: fresh chunks go home ahead of the commit, unflushed; they stay dirty
        if h.st.c.inl != 0xffff or not h.dirty: return
        f = h.first; yield from h.guard()
        if f and h.st.hc.redo and on('ownarea'): yield from h.empty()
        n = nch(len(h.data))
        if h.st.hc.redo and home(n) > h.st.hc.redo and on('growempty'): yield from h.empty()
        c = h.st.c
        for i in first_last({i for i in h.dirty if (i >= c.count or i in c.holes) and i not in h.st.ov and i not in h.ahead}):
            yield from h.put(home(i), h.chunk(i), 1); h.ahead.add(i)
    def empty(h):
        yield from h.guard(); hs, s = yield from h.lock_heads(); st = h.st
        if h.loose and on('spillflush'): yield ('f',)
        h.loose = False
        for i in sorted(st.ov):
            if i < st.c.count and i not in st.c.holes: yield ('w', home(i), st.ov[i])
        if on('emptyflush'): yield ('f',)
        cr = st.c.b if st.nrec else h.old_cr(h.resv); b = make_head(hs[s].wr if on('reread') else h.wr, cr); yield ('w', H * (1 - s), b); h.mine = b
        if on('flipflush'): yield ('f',)
        st.c = st.hc = parse_cr(cr); st.ov = {}; st.nrec = 0; st.prev = b''
        yield from h.cut(max([extent(st.c)] + [home(i + 1) for i in h.ahead])); yield from h.unlock()
    def close(h):
        yield from h.sync()
        if h.st.hc.redo and on('closeempty'): yield from h.empty()
        if on('mirror'):
            yield from h.guard(); hs, s = yield from h.lock_heads(); yield from h.cut(ext(h.st.c, hs[s].gen))
            if hs[s].gen > 1 and (not hs[1 - s] or hs[1 - s].b != hs[s].b): yield ('w', H * (1 - s), hs[s].b)
            yield from h.unlock()
def first_last(s): s = sorted(s); return s[-1:] + s[:-1] if on('markfirst') else s
def class_change(W, cls):
    yield ('lock', 'x'); hs = yield from heads(); s = pick(hs)
    if on('classflush'): yield ('f',)
    key = open_wr(hs[s].wr); wr = make_wr(key, cls, hs[s].wctr + 1); W.wraps.append(wr)
    b = make_head(wr, hs[s].cr, hs[s].rest)
    while hs[s].gen == 1 and on('newhead') and (yield ('len',)) > H:
        if not any((yield ('r', H, H))): break  # chunks of a writer lie further behind
        if any(p.kind in ('writer', 'repair') for p in W.procs): W.wraps.remove(wr); yield ('unlock',); return      # busy
        W.held = True; yield from move(H)       # nobody becomes the writer meanwhile
    if hs[s].gen > 1 or not on('newhead'): yield ('w', H * (1 - s), b)
    elif (yield ('wif0', H, b)) is not None: W.wraps.remove(wr); W.held = False; yield ('unlock',); return          # and again
    W.held = False
    if on('bothflush'): yield ('f',)
    if on('both'): yield ('w', H * s, b); yield ('f',)
    W.wacked = max(W.wacked, W.wraps.index(wr)); yield ('unlock',)
def repair(W):                                  # no key, both locks: copy in place, leave in force
    yield ('lock', 'x'); st = yield from load(False)
    if on('lockrepair'): yield ('f',)
    for i in sorted(st.ov):
        if i < st.c.count and i not in st.c.holes: yield ('w', home(i), st.ov[i])
    yield ('f',); yield ('unlock',)
class Disk:
    def __init__(d, b=b'', saved=None): d.dur = bytearray(b); d.cur = bytearray(b); d.pend = []; d.flushes = 0; d.saved = [] if saved is None else saved
    def has(d, x, b=None): return x in (d.cur if b is None else b) or any(x in y for y in d.saved)
    def special(d, op):                         # what is one step; the length if it was not done
        if op[0] == 'save': d.saved.append(bytes(op[1])); return
        if op[0] == 'append': d.do(('w', len(d.cur), op[1], 'foreign')); return
        if op[0] == 'wif0' and any(d.cur[op[1]:op[1] + H]) or op[0] in ('wif', 'tif') and len(d.cur) > op[1]: return len(d.cur)
        if op[0] == 'tif': d.do(('t', op[2]))
        else: d.do(('w', op[1], op[2]) if op[0] == 'wif0' else ('w', op[2], op[3]))
    @staticmethod
    def app(buf, op):
        n = op[1] + (len(op[2]) if op[0] == 'w' else 0)
        if len(buf) < n: buf.extend(bytes(n - len(buf)))
        if op[0] == 't': del buf[n:]
        else: buf[op[1]:n] = op[2]
    def do(d, op): d.app(d.cur, op); d.pend.append(op)
    def flush(d): d.dur = bytearray(d.cur); d.pend = []; d.flushes += 1
    def cut(d):                                 # power cut: any subset, per sector; or per-sector prefixes
        b = bytearray(d.dur); mode = R.randrange(3); p = R.choice((.1, .5, .9)); lim = {}; uncut = False
        for op in d.pend:
            if op[0] == 't':
                if R.random() < p: d.app(b, op)
                else: uncut = True
                continue
            if len(op) > 3 and uncut: continue  # one inode: what another program appends behind a cut lasts no sooner than the cut
            o, x = op[1], op[2]; q = o
            while q < o + len(x):
                e = min(o + len(x), (q // S + 1) * S); sec = q // S
                if mode == 0: keep = R.random() < p
                elif mode == 1: keep = lim.setdefault(sec, R.random() < p)           # whole sectors' histories
                else: keep = lim.get(sec, True) and R.random() < .8; lim[sec] = keep  # prefix of each sector's history
                if keep: d.app(b, ('w', q, x[q - o:e - o]))
                q = e
        if len(b) > len(d.dur) and R.random() < .2: del b[R.randrange(len(d.dur), len(b)):]
        return Disk(b, d.saved)
def run(gen, disk):                             # to completion, nobody else
    v = None
    try:
        while 1:
            op = gen.send(v); v = None
            if op[0] == 'r': v = bytes(disk.cur[op[1]:op[1] + op[2]])
            elif op[0] == 'len': v = len(disk.cur)
            elif op[0] == 'f': disk.flush()
            elif op[0] in 'wt': disk.do(op[:3])
            elif op[0] not in ('lock', 'unlock'): v = disk.special(op)
    except StopIteration as e: return e.value
class Proc:
    def __init__(p, gen, kind): p.gen, p.kind, p.v, p.todo, p.acc, p.op = gen, kind, None, None, b'', None
class World:
    def __init__(W):
        key = R.randbytes(16); wr = make_wr(key, 3, 1); W.wraps = [wr]; W.wacked = 0; W.sealed = 0; W.stat = Counter()
        inl = seal(key, FID + b'inline' + struct.pack('<Q', 0), b''); W.disk = Disk(make_head(wr, make_cr(key, 0, 0, 0, 0, 0, 0, ()), inl))
        W.states = [b'']; W.acked = 0; W.locks = {}; W.procs = []; W.log = []; W.spilled = None; W.tokens = []; W.held = False
    def issue(W, d): W.states.append(d)
    def ack(W, spill=False):
        if not spill: W.acked = len(W.states) - 1
    def sealed_later(W, n): W.sealed += n
    def writer(W, nops):
        h = Handle(W); yield from h.open()
        for _ in range(nops):
            k = R.choices(('w', 'a', 'ext', 'shr', 'spill', 'sync'), (5, 6, 1.2, 1.2, 1.5, 3))[0]; sz = len(h.data)
            if os.environ.get('DIRECT') and sz > 200:   # one-byte overwrites, often spilled: same-length records
                h.write(R.randrange(3) * C, R.randbytes(1)); yield from h.sync(R.random() < .7); continue
            W.log.append((k, sz)); d = lambda m: R.randbytes(R.choice((1, 5, 30, 64, 100, 200)[:m]))
            if k == 'w' and sz < 900: h.write(R.randrange(sz + 1), d(6))
            elif k == 'a' and sz < 900: h.write(sz, d(6))
            elif k == 'ext' and sz < 700: h.extend(sz + R.choice((1, 40, 64, 200, 300)))
            elif k == 'shr' and sz: yield from h.shrink(R.randrange(sz))
            elif k == 'spill':
                if on('resv'): yield from h.sync(True)
                else: yield from h.early()
            if R.random() < .5: yield from h.sync()
        yield from h.close(); W.log.append(('closed',))
    def foreign(W):                             # another program, which opens the file with O_APPEND
        for _ in range(R.randint(1, 3)):
            t = [R.randbytes(R.choice((6, 10, 31, C, F, 2 * F, 300))).translate(NONZERO) for _ in range(R.choice((1, 1, 2)))]
            yield ('append', bytes(R.choice((0, 5, S, F))).join(t), t)
            if R.random() < .3: yield ('f',)
    def lost(W, tokens, disk, what):
        for t in tokens:
            if not disk.has(t): raise Violation('%s: foreign bytes lost (%d)' % (what, len(t)))
    def spawn(W, kind):
        g = {'writer': lambda: W.writer(R.randint(1, 7)), 'class': lambda: class_change(W, R.randrange(4)),
             'reader': W.reading, 'repair': lambda: repair(W), 'foreign': W.foreign}[kind](); W.procs.append(Proc(g, kind))
    def reading(W):
        cache = {}
        for _ in range(R.randint(1, 4)):
            lo = W.acked; d = yield from reader(cache)
            W.stat['reads'] += 1; W.judge(d, W.states[lo:], 'reader')
    def judge(W, d, win, who):
        if d in win: return
        W.stat[who + ' mixed'] += 1
        if who != 'reader': raise Violation('%s: not a committed state (%d bytes, window %s)' % (who, len(d), [len(x) for x in win]))
        if not any(len(x) == len(d) for x in win): raise Violation('reader: size %d not in window' % len(d))
        for i in range(nch(len(d))):
            x = d[i * C:(i + 1) * C]
            if not any(x == s[i * C:i * C + len(x)] for s in win): raise Violation('reader: chunk %d is in no allowed state' % i)
    def check(W, disk, what):
        W.stat[what] += 1
        try: st = run(load(), disk); g = content(st); d = run(g, disk)
        except Damaged as e: raise Violation('%s: damaged (%s)' % (what, e))
        W.judge(d, W.states[W.acked:], what)
        if on('resv') and st.c.seals < W.sealed: raise Violation('%s: seal count %d < %d' % (what, st.c.seals, W.sealed))
        if st.h.wr not in W.wraps[W.wacked:]: raise Violation(what + ': class change undone')
        now = {w[9:25] for w in W.wraps[W.wacked:]}
        for w in W.wraps[:W.wacked]:
            if w[9:25] not in now and w[9:25] in disk.cur[:2 * H]: raise Violation(what + ': old wrap still on disk after acknowledged class change')
        return st, d
    def cut_check(W, what):                     # what the disk has, and what is saved beside, survives a power cut
        last = [t for t in W.tokens if W.disk.has(t, W.disk.dur)]; disk = W.disk.cut(); W.lost(last, disk, what); return disk, W.check(disk, what)
    def can(W, p, m): o = [k for q, k in W.locks.items() if q is not p]; return not o or (m == 's' and 'x' not in o)
    def step(W, p):                             # one disk access of one process, at most PAGE bytes
        try:
            if p.todo is None: p.op = p.gen.send(p.v); p.v = None; p.todo = p.op; p.acc = b''
            op = p.todo; k = op[0]
            if k == 'lock':
                if not W.can(p, op[1]): return
                W.locks[p] = op[1]; p.todo = None
            elif k == 'unlock': W.locks.pop(p, None); p.todo = None
            elif k == 'f': W.disk.flush(); p.todo = None
            elif k == 't': W.disk.do(op); p.todo = None
            elif k == 'len': p.v = len(W.disk.cur); p.todo = None
            elif k == 'r':
                o, n = op[1], op[2]; m = min(n, (o // PAGE + 1) * PAGE - o); p.acc += bytes(W.disk.cur[o:o + m])
                if m == n: p.v = p.acc; p.todo = None
                else: p.todo = ('r', o + m, n - m)
            elif k in ('wif', 'wif0'):          # the look and the first page
                o, b = op[1:] if k == 'wif0' else op[2:4]; m = min(len(b), (o // PAGE + 1) * PAGE - o)
                p.v = W.disk.special((*op[:-1 - (len(op) > 4)], b[:m]) if k == 'wif' else (k, o, b[:m]))
                if p.v is None and len(op) > 4: W.sealed += 1
                p.todo = ('w', o + m, b[m:]) if p.v is None and m < len(b) else None
            elif k == 'append' and any(q.todo is not q.op and q.todo and q.todo[0] == 'w' for q in W.procs): return     # the inode's lock
            elif k in ('save', 'append', 'tif'):
                p.v = W.disk.special(op); p.todo = None
                if k == 'append': W.tokens += op[2]; W.stat['foreign'] += 1
                if k == 'save' and not any(t in op[1] for t in W.tokens): W.stat['noise'] += 1
            elif k == 'w':
                if len(op) > 3: W.sealed += 1
                o, b = op[1], op[2]; m = min(len(b), (o // PAGE + 1) * PAGE - o); W.disk.do(('w', o, b[:m]))
                p.todo = ('w', o + m, b[m:]) if m < len(b) else None
        except StopIteration: W.procs.remove(p); W.locks.pop(p, None)
        except Damaged as e: raise Violation('%s sees damaged: %s' % (p.kind, e))
    def kill(W, p): W.held = W.held and p.kind != 'class'; W.procs.remove(p); W.locks.pop(p, None); W.stat['kills'] += 1; W.stat['kill ' + p.kind] += 1
    def settle(W):                              # nobody runs: what is visible must be an allowed state
        W.lost(W.tokens, W.disk, 'kill check'); st, d = W.check(W.disk, 'kill check'); W.states.append(d); return st
    def go(W, steps, ncut):
        for _ in range(steps):
            kinds = [p.kind for p in W.procs]; r = R.random()
            if 'writer' not in kinds and 'repair' not in kinds and not W.held: W.settle(); W.spawn('repair' if r < .15 else 'writer')
            elif len(kinds) < 4 and r < .04: W.spawn('class' if 'class' not in kinds and R.random() < .4 else 'reader')
            elif 'foreign' not in kinds and r < .045: W.spawn('foreign')
            p = R.choice(W.procs); W.step(p)
            if p in W.procs and R.random() < .004: W.kill(p)
            if p.kind != 'reader' and W.disk.pend and p.op and p.op[0] in ('w', 't', 'wif', 'wif0', 'tif', 'append'):
                for _ in range(ncut): W.cut_check('power cut')
                if R.random() < .006:           # adopt it: everybody dies, the survivor is the new truth
                    W.disk, (st, d) = W.cut_check('adopted cut'); W.procs = []; W.locks = {}; W.held = False
                    W.tokens = [t for t in W.tokens if W.disk.has(t)]       # a power cut may take what nobody flushed
                    W.states = [d]; W.acked = 0; W.wraps = W.wraps[W.wacked:]; W.wraps = W.wraps[W.wraps.index(st.h.wr):]; W.wacked = 0
def explore(seed, secs, ncut=3, stop=True):
    end = time.time() + secs; tot = Counter(); bad = Counter(); n = 0
    while time.time() < end:
        n += 1; R.seed(seed * 1000003 + n); W = World()
        try: W.go(1500, ncut)
        except Violation as e:
            bad[str(e).split(' (')[0].split(' 1')[0]] += 1
            if stop: print('VIOLATION world %d: %s; ops %s' % (n, e, W.log[-6:])); break
        tot += W.stat
    tot['worlds'] = n; return tot, bad
def verify(disk):                               # the newest plaintext and what verify would exit with
    st = run(load(), disk); d = run(content(st), disk); hs = st.hs
    odd = len(disk.cur) != max(extent(st.c) if st.c.inl == 0xffff else 2 * H if st.h.gen > 1 else H, 0) or st.hc.redo
    if st.h.gen > 1 and (not hs[0] or not hs[1] or hs[0].b != hs[1].b): odd = True
    return d, odd
def tamper(seed, n):
    res = Counter()
    for k in range(n):
        R.seed(seed * 7919 + k); W = World(); recs = []; old = []; chunks = {}
        g = W.writer(R.randint(2, 7)); run(class_change(W, 0), W.disk); do = W.disk.do
        def spy(op):
            do(op)
            if op[0] == 'w': recs.append((op[1], op[2])) if op[2][:4] == b'REDO' else old.append(op[2]) if len(op[2]) == H else chunks.setdefault(op[1], []).append(op[2])
        W.disk.do = spy; run(g, W.disk)
        if R.random() < .5: run(class_change(W, 1), W.disk); run(W.writer(0), W.disk)
        good = bytes(W.disk.cur); want = W.states[-1]
        d, odd = verify(Disk(good)); assert d == want and not odd, ('clean file not clean', d == want, odd, len(good))
        def case(name, b):
            try: d, odd = verify(Disk(b))
            except Damaged: r = 'refused'
            else: r = ('newest, verify 65' if odd else 'newest, verify 0') if d == want else ('OLDER' if d in W.states else 'MIXED/WRONG')
            res[name, r] += 1
        for i in range(len(good)):
            b = bytearray(good); b[i] ^= 1 << R.randrange(8)
            case('flip head' if i < 2 * H else 'flip chunk/hole space', b)
        for i in range(len(good)): case('truncate', good[:i])
        for _ in range(20): case('append garbage', good + R.randbytes(R.randrange(1, 300)))
        for o, r in recs:
            case('append stale record at end', good + r)
            if o >= len(good): case('stale record at its old place', good.ljust(o, b'\0') + r)
        for h in [x for x in old if x != good[:H]]:
            case('stale head in slot 0 only', h + good[H:]); case('stale head in slot 1 only', good[:H] + h + good[2 * H:])
            case('stale head in both slots', h + h + good[2 * H:])
            for o, r in recs:
                if parse_head(h) and parse_cr(parse_head(h).cr).redo == o: case('stale head in both + its stale record', (h + h + good[2 * H:]).ljust(o, b'\0')[:o] + r)
            bad = bytearray(good[:H]); bad[20] ^= 1; case('one head torn + stale head in the other', bytes(bad) + h + good[2 * H:])
        for o, r in recs:                       # a record's content record put into both heads (needs no key)
            hd = parse_head(good[:H]); x = make_head(hd.wr, r[RH:RH + CR]); case('heads forged from record content', x + x + good[2 * H:])
        for o, v in chunks.items():
            for x in v[:-1]:
                if o + len(x) <= len(good) and good[o:o + len(x)] != x: case('stale chunk at its own place', good[:o] + x + good[o + len(x):])
        a, b2, c = good[2 * H:2 * H + F], good[2 * H + F:2 * H + 2 * F], run(load(), Disk(good)).c
        if len(b2) == F and c.count > 2 and not c.holes: case('swap chunks 0 and 1', good[:2 * H] + b2 + a + good[2 * H + 2 * F:]); case('zeroed chunk', good[:2 * H] + bytes(F) + b2 + good[2 * H + 2 * F:])
    for k, v in sorted(res.items()): print('%-42s %-20s %d' % (*k, v))
def flushes():                                  # flush counts per operation, measured, nobody else around
    R.seed(5); W = World(); h = Handle(W)
    def t(what, g): n = W.disk.flushes; run(g, W.disk); print('%-64s %d' % (what, W.disk.flushes - n))
    def w(o, n, what): h.write(o, R.randbytes(n)); t(what, h.sync())
    run(h.open(), W.disk); w(0, 20, 'first sync of a handle, inline'); w(20, 10, 'next sync, inline')
    w(30, 300, 'inline grows into chunks (with reservation)'); w(330, 3 * C, 'append: partial last chunk + fresh chunks, opens the area (+reserve)')
    w(522, 5, 'small append, area open'); w(527, 5, 'small append, area open'); w(0, 3, 'overwrite, area open')
    h.resv += 1000; w(532, 4 * C, 'append of several chunks, area open (may meet the area: +2)')
    t('emptying', h.empty()); h.resv += 1000; w(0, 3, 'overwrite that opens the area, no reservation due')
    t('emptying', h.empty()); w(len(h.data), -len(h.data) % C, 'append that fills the last chunk, opens the area'); t('emptying', h.empty())
    w(len(h.data), 4 * C, 'append of fresh chunks, no area'); h.extend(len(h.data) + 2 * C); t('extension with holes, aligned', h.sync())
    t('shrink to a chunk border', h.shrink(4 * C)); t('shrink into a chunk', h.shrink(4 * C - 9)); t('sync with nothing to do', h.sync())
    t('close, area empty', h.close()); h2 = Handle(W); run(h2.open(), W.disk); h2.write(3, b'x'); h = h2
    t('open, overwrite, first sync', h.sync()); t('close, area open', h.close()); t('class change', class_change(W, 1)); t('repair', repair(W))
def mutate(seed, secs, part=0, of=1):
    for r in RULES[part::of]:
        OFF.clear(); OFF.add(r); t = time.time(); tot, bad = explore(seed, secs, 3, False)
        print('%-12s %-60s cuts %d worlds %d' % (r, dict(bad.most_common(3)) or 'no violation', tot['power cut'], tot['worlds']), flush=True)
    OFF.clear()
def foreign(seed, secs):                        # controls: without any of these rules bytes are lost
    harmless = []
    for r in FOREIGN:
        OFF.clear(); OFF.add(r); tot = Counter(); bad = Counter()
        for k in range(10):                     # a busy machine visits few worlds
            t, b = explore(seed + k, secs, 3, False); tot += t; bad += b
            if bad or r == 'markfirst': break
        print('%-12s %-60s saved without need %d, foreign %d, cuts %d' % (r, dict(bad.most_common(3)) or 'no violation', tot['noise'], tot['foreign'], tot['power cut']), flush=True)
        if r != 'markfirst' and not any('foreign bytes lost' in x for x in bad): harmless.append(r)
    OFF.clear()
    if harmless: sys.exit('nothing was lost without: ' + ' '.join(harmless))
def main(a):
    if not a: sys.exit(__doc__)
    if a[0] == 'run':
        OFF.update(a[3][4:].split(',') if len(a) > 3 else ()); tot, bad = explore(int(a[1]), float(a[2])); print(tot, bad); sys.exit(bool(bad))
    else: {'mutate': mutate, 'tamper': tamper, 'flushes': flushes, 'foreign': foreign}[a[0]](*map(int, a[1:]))
if __name__ == '__main__': main(sys.argv[1:])
