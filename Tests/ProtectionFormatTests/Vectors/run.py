#!/usr/bin/env python3
"""Holds a program against the vectors, folder by folder.

    run.py PROGRAM [ARGUMENT...]

runs `PROGRAM ARGUMENT... FOLDER FILE...` for each folder. For each file it is to print a line: the words of `expect:` that
it comes to, or - for what it does not implement. It says `success` only if the fields that it has found are those of the
file. Prints what differs, then the counts. Exit status 1 on a difference, or if nothing was judged.
"""
import pathlib
import subprocess
import sys

import scenario

FOLDER = pathlib.Path(__file__).resolve().parent

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__.strip())
judged = passed_over = different = 0
for folder in sorted({path.parent for path in FOLDER.glob("*/*.txt")}):
    files = sorted(folder.glob("*.txt"))
    done = subprocess.run([*sys.argv[1:], folder.name, *files], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(files):
        sys.exit(f"run.py: error: {folder.name}: {len(lines)} lines for {len(files)} files, status {done.returncode}\n"
                 + done.stderr)
    for file, line in zip(files, lines):
        expected = scenario.read(file)["expect"]
        passed_over += line == "-"
        judged += line != "-"
        if line not in ("-", expected):
            different += 1
            print(f"{folder.name}/{file.name}: {line}, expected: {expected}")
print(f"{judged} judged, {different} different, {passed_over} passed over")
sys.exit(1 if different or not judged else 0)
