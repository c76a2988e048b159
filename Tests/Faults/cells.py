"""One cell of the table: an operation, one of its calls, an error; and what may come of it."""
import collections
import os
import re

from errors import CHANGING, ERRORS, fault
from bed import PASSCODE
from operations import OPERATIONS, OTHER

# As docs/man/protectfs.1 lists them. 70, a bug, is never the answer to a failing disk; it is to a machine without random numbers.
STATUSES = {64, 65, 66, 69, 71, 73, 74, 75, 76, 77, 78}
# Whoever cannot take a name away leaves it; the next run of the same operation takes it away.
LEAVES = {"unlink", "rmdir", "rename"}
# Of downloads, which go on where they were; and of the agent's and clients' directory.
RESUMED = re.compile(r"\.protectfs-download-|^keybag/(run|downloads|secrets)(/|$)|^keybag/(changing|queue)$")
# Notes of what the next lock or unlock finishes.
NOTED = re.compile(r"^keybag/(changing|queue)/")


class Template:
    """An operation that was prepared and done once without a fault: old and new state, and how often it makes each call."""

    def __init__(self, bed, operation):
        self.operation, self.commits = operation, []
        # Whether one refusal that touched nothing was followed to its end, and nothing was wrong.
        self.knows_refusal = False
        bed.load("base")
        bed.enter("unlocked")
        if operation.prepare:
            operation.prepare(bed)
        if operation.ring == "before":
            bed.forget_keys()
        else:
            bed.enter(operation.ring)
        bed.save(operation.name)
        self.keys = bed.ring()
        self.begin(bed)
        self.begun, self.keybags = bed.everything(bed.here), [bed.keybag_files()]
        self.old = operation.look(bed, None)
        self.begin(bed)
        done = operation.run(bed, logs=True)
        if done.status != operation.status or any(not answer.startswith("ok") for answer in done.answers):
            raise SystemExit(f"{operation.name}, without a fault: {done.status} {done.errors} {done.answers}")
        self.counts = collections.Counter(call for _, call, _ in bed.log())
        self.names = self.all_names(bed)
        self.keybags.append(bed.keybag_files())
        self.new = operation.look(bed, done)
        if self.new == self.old:
            raise SystemExit(f"{operation.name}: nothing tells the new state from the old one: {self.old}")
        for number, line in enumerate(operation.lines or []):
            if line in ("sync", "close"):
                self.begin(bed)
                lines = operation.lines[:number + 1]
                bed.serve(lines if line == "close" else [*lines, "close"])
                self.commits.append(operation.look(bed, None))
        bed.load(operation.name)
        self.names |= self.all_names(bed)

    @staticmethod
    def all_names(bed):
        return {f"{root}/{name}" for root in ("work", "keybag") for name in bed.names(bed.here / root)} \
            | set(os.listdir(bed.here))

    def begin(self, bed):
        """The bed and the ring as the operation finds them."""
        if bed.untouched != self.operation.name:
            bed.load(self.operation.name)
            bed.put_keys(self.keys)

    def is_untouched(self, bed):
        """Whether bed and ring are still as they were at the beginning."""
        if bed.everything(bed.here) == self.begun and bed.ring() == self.keys:
            bed.untouched = self.operation.name
        return bed.untouched == self.operation.name

    def is_unlocked_as_ever(self, bed):
        """Whether the keybag and its keys are those from which the operation begins, or with which it ends: these do unlock."""
        return self.operation.ring == "unlocked" and bed.ring() == self.keys and bed.keybag_files() in self.keybags

    def cells(self):
        for call, count in sorted(self.counts.items()):
            for number in range(1, count + 1):
                for error in ERRORS[call]:
                    yield call, number, error


class Cell:
    """`outcome`: completes, old, new (refused, but all of it is done), parts (refused, some parts done), or unreached."""

    def __init__(self, bed, template, call, number, error, follows=True):
        """`follows`: whether the next commands are tried too after a call that only looks has failed and it was no matter."""
        self.operation, self.call, self.number, self.error = template.operation, call, number, error
        self.follows = follows or call in CHANGING
        self.violations = []
        template.begin(bed)
        done = self.operation.run(bed, fault=fault(call, number, error))
        failed = [line for line in bed.log() if line[0] == "failed"]
        self.where = failed[0][2] if failed else ""
        self.status, self.message = done.status, done.errors.strip() or " ".join(done.answers[-1:])
        if not failed:
            self.outcome = "unreached"
            if done.status == self.operation.status:
                return
        self.judge_end(done)
        # A refusal that has touched nothing leaves what the next one finds too: what follows is tried once for each operation.
        has_only_refused = (self.refused and not self.operation.listens and self.acknowledged(done) == 0
                            and template.is_untouched(bed))
        if has_only_refused and template.knows_refusal:
            self.outcome = "old"
            return
        seen = self.operation.look(bed, done)
        self.judge_state(bed, template, done, seen)
        self.judge_what_follows(bed, template, done, seen)
        template.knows_refusal |= has_only_refused and not self.violations

    def wrong(self, what):
        self.violations.append(what)

    def judge_end(self, done):
        self.refused = self.operation.refuses(done)
        if self.operation.lines:
            answers = [answer for answer in done.answers if not answer.startswith("ok")]
            self.refused = bool(answers) or done.status != 0
            if done.status not in (0, 1) or any(not answer.startswith("error ") for answer in answers):
                self.wrong(f"the worker ended with {done.status}: {done.answers[-1:]} {done.errors}")
            return
        if done.status == "hangs" or done.status < 0 or done.status >= 128:
            return self.wrong(f"ended with {done.status}")
        if not self.refused:
            return
        if done.status not in {*STATUSES, self.operation.status} and (self.call, done.status) != ("getrandom", 70):
            self.wrong(f"status {done.status} says nothing of a failing system")
        if not re.search(r"protectfs(-\w+)?: (error: )?\S", done.errors):
            self.wrong(f"refused without a message: {done.errors!r}")

    def acknowledged(self, done):
        """How many commits of a handle were."""
        return sum(1 for line, answer in zip(self.operation.lines or [], done.answers)
                   if line in ("sync", "close") and answer.startswith("ok"))

    def judge_state(self, bed, template, done, seen):
        if self.operation.lines:
            acknowledged = self.acknowledged(done)
            states = [template.old, *template.commits]
            if seen not in states[acknowledged:acknowledged + 2]:
                self.wrong(f"{acknowledged} commits acknowledged, and it is {seen}")
            self.outcome = "completes" if not self.refused else "old" if seen == states[acknowledged] else "new"
            return
        moved = 0
        for part in sorted(set(template.old) | set(template.new) | set(seen)):
            was, is_now, found = template.old.get(part), template.new.get(part), seen.get(part)
            if found == is_now:
                moved += found != was
            elif not self.refused:
                self.wrong(f"exit {done.status}, and {part} is {found}, not {is_now}")
            elif self.operation.between.get(part) == "any":
                pass
            elif found != was and found not in self.operation.between.get(part, []):
                self.wrong(f"{part} is {found}, neither {was} nor {is_now}")
        changes = sum(template.old.get(part) != template.new.get(part) for part in set(template.old) | set(template.new))
        self.outcome = "completes" if not self.refused else "old" if moved == 0 else "new" if moved == changes else "parts"

    def judge_what_follows(self, bed, template, done, seen):
        """The same again, without a fault and without any repair, gives the new state, and leaves nothing else."""
        left = self.left(bed, template, NOTED)
        if left and self.call not in LEAVES:
            self.wrong(f"left behind: {left}")
        again = done
        if self.refused and (self.operation.repeats or seen == template.old) and not self.operation.lines:
            if self.operation.ring == "before":
                bed.forget_keys()
            elif self.operation.ring == "locked":
                bed.run("lock")
            again = self.operation.again(bed) if self.operation.again else self.operation.run(bed)
            if again.status not in (*self.operation.again_status, self.operation.status):
                self.wrong(f"the next try: {again.status} {again.errors.strip()}")
            after = self.operation.look(bed, again if again.status == 0 else done)
            if after != template.new:
                self.wrong(f"after the next try it is {after}, not {template.new}")
        if not (self.refused or self.follows or self.left(bed, template)):
            return
        # A lock and an unlock take away what is left, and show that the keybag opens.
        if bed.keybag.exists() and self.operation.verifies and (self.left(bed, template) or not template.is_unlocked_as_ever(bed)):
            bed.run("lock")
            if bed.run("unlock", "--wait", "--passcode-fd", 3, fds={3: PASSCODE}).status != 0:
                bed.run("unlock", "--wait", "--passcode-fd", 3, fds={3: OTHER})
        left = self.left(bed, template)
        if left and not (again is done and self.call in LEAVES):
            self.wrong(f"left behind by the next try and the next unlock too: {left}")
        if self.operation.verifies:
            if self.operation.closes:
                bed.serve([f"open w {self.operation.closes}", "append 1 1", "close"])
            verified = bed.run("verify", "--recursive", ".")
            if verified.status != 0:
                self.wrong(f"verify: {verified.status} {verified.errors.strip()}")

    @staticmethod
    def left(bed, template, *others):
        return sorted(name for name in Template.all_names(bed) - template.names
                      if not any(pattern.search(name) for pattern in (RESUMED, *others)))

    def report(self):
        return {"operation": self.operation.name, "call": self.call, "number": self.number, "error": self.error, "where": self.where,
                "outcome": self.outcome, "status": self.status, "message": self.message, "violations": self.violations}


def templates(bed, chosen):
    """Of the operations of these names."""
    bed.make()
    bed.must("init", "--passcode-fd", 3, fds={3: b"passcode one"})
    bed.save("base")
    return [Template(bed, operation) for name, operation in OPERATIONS.items() if name in chosen]
