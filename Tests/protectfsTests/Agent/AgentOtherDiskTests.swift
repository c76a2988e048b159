import Foundation
import Testing

/// The agent of a user who has another keybag, on a disk that does not answer, or with a file that cannot be read.
@Suite(
    "The agent, beside a keybag in trouble",
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot),
    .enabled(if: access("/usr/bin/bindfs", X_OK) == 0, "bindfs is not installed"),
    .enabled(if: access("/dev/fuse", R_OK | W_OK) == 0, "there is no /dev/fuse"))
struct AgentOtherDiskTests {
    /// `$0` is the passcode, `$1` how the other keybag is made unusable, and `$2` how it is mended.
    private static let script = """
        cd "$HOME" || exit 1
        mkdir stored view && bindfs -f --no-allow-other stored view & disk=$!
        until mountpoint -q view; do sleep 0.05; done
        trap 'kill -CONT $disk; fusermount3 -uz view; kill $agent' EXIT
        printf other | protectfs init --no-recovery-code --keybag view/other --passcode-fd 0 || exit 1
        protectfs lock --keybag view/other && protectfs lock || exit 1
        protectfs agent run --max 3s 2>log & agent=$!
        until grep -q follows log; do sleep 0.05; done
        eval "$1"
        for round in first second; do
            printf %s "$0" | protectfs unlock --passcode-fd 0 || exit 1
            for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
                protectfs status | grep -q ': locked' && echo $round && break
                sleep 1
            done
        done
        eval "$2"
        cat log >&2
        """

    @Test(
        "The limit of the own keybag is kept, again and again",
        arguments: [
            ("kill -STOP $disk", "kill -CONT $disk"), ("chmod 0 stored/other/rings", "chmod 600 stored/other/rings"),
        ])
    func limit(breaks: String, mends: String) throws {
        let user = try EndToEndUser.made()
        let words = ["dbus-run-session", "--", "env", "PATH=\(user.programs):/usr/bin:/bin", "sh", "-c", Self.script]
        let done = try user.run(words + [EndToEndUser.passcode, breaks, mends])
        #expect(done.text == "first\nsecond\n", "\(done)")
    }
}
