#!/usr/bin/env python3
"""Makes the test vectors of FORMAT.md §§2 and 3 from what the page says (README.md). It shares no code with the library.

    make-vectors.py          writes every folder anew
    make-vectors.py check    compares the folders with what it would write, and lets the independent reader judge every
                             scenario that it has an opinion on; exit status 1 on a difference

One scenario a file, `name: value` a line. Bytes are hex; zero*N stands for N zero bytes, ramp*N for 0, 1 … 250, 0, 1 …
"""
import pathlib
import shutil
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "IndependentReader")]

import backup_vectors
import file_vectors
import head_vectors
import judge
import keybag_vectors
import scenario
import secret_vectors

MAKERS = [keybag_vectors.keybags, keybag_vectors.attempts, keybag_vectors.transitions, keybag_vectors.events,
          keybag_vectors.ring_payloads, keybag_vectors.recovery_exports, keybag_vectors.clients,
          backup_vectors.backup_keybags, secret_vectors.secrets, head_vectors.heads, head_vectors.broken_heads,
          head_vectors.wraps, head_vectors.join_seals, head_vectors.redo_records, file_vectors.files, file_vectors.broken_files]


def text_of(fields):
    shown = {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}
    return "".join(f"{name}: {value}".rstrip() + "\n" for name, value in shown.items())


def made():
    texts = {}
    for make in MAKERS:
        for name, fields in make():
            assert name not in texts, f"two scenarios {name}"
            texts[FOLDER / f"{name}.txt"] = text_of(fields)
    return texts


def check():
    texts = made()
    for path, text in texts.items():
        name = path.relative_to(FOLDER)
        if not path.exists() or path.read_text() != text:
            yield f"{name}: not what this script makes"
            continue
        fields = scenario.read(path)
        result = judge.result(path.parent.name, fields)
        if result not in (None, fields["expect"]):
            yield f"{name}: the independent reader says: {result}"
    yield from (f"{p.relative_to(FOLDER)}: nobody makes this file" for p in FOLDER.glob("*/*.txt") if p not in texts)


if sys.argv[1:] == ["check"]:
    differences = list(check())
    print(*differences, sep="\n", end="\n" if differences else "")
    sys.exit(1 if differences else 0)
elif sys.argv[1:]:
    sys.exit("usage: make-vectors.py [check]")
for folder in {path.parent for path in made()}:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
for path, text in made().items():
    path.write_text(text)
