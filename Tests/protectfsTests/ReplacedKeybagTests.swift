import Foundation
import Testing

/// What another keybag in the place of one that was unlocked can make a user write, and a configuration that is away.
@Suite("A keybag in the place of another one")
struct ReplacedKeybagTests {
    private let sandbox: CommandSandbox

    init() throws { sandbox = try CommandSandbox() }

    @Test("Once the genuine one was unlocked, nothing is written under one that was put there while locked")
    func planted() throws {
        try sandbox.unlock()
        // Somebody else's, made on another machine: with its device key where only the keybag's directory is written to.
        let made = try sandbox.shell(
            """
            mkdir genuine && cp "$PROTECTFS_KEYBAG"/keybag.? genuine/ && "$PROTECTFS" lock
            printf other | XDG_STATE_HOME="$PROTECTFS_KEYBAG" "$PROTECTFS" init --keybag "$PWD/other" --passcode-fd 0
            """)
        #expect(made.status == 0, "\(made.errors)")
        sandbox.evictKeys(of: sandbox.path("other"))
        let done = try sandbox.shell(
            """
            cp other/keybag.? "$PROTECTFS_KEYBAG"/
            mkdir tree; echo plain >tree/plain; cp tree/plain plain
            for class in unless-open none; do
                echo secret | "$PROTECTFS" write --class $class new-$class; echo $?
                "$PROTECTFS" protect --yes --class $class plain; echo $?
            done
            "$PROTECTFS" upgrade --class unless-open tree; echo $(($? != 0))
            cat plain tree/plain; ls new-* 2>/dev/null
            cp genuine/keybag.? "$PROTECTFS_KEYBAG"/; echo secret | "$PROTECTFS" write --class unless-open new; echo $?
            """)
        #expect(done.text == "77\n77\n77\n77\n1\nplain\nplain\n0\n", "\(done.errors)")
        #expect(done.errors.contains("was unlocked here since the machine started"), "\(done.errors)")
    }

    @Test(
        "A configuration that is there and cannot be reached does not count as none",
        arguments: ["config", "directory"])
    func configurationAway(link: String) throws {
        try sandbox.unlock()
        let done = try sandbox.shell(
            """
            mkdir -p "$XDG_CONFIG_HOME" disk/protectfs && echo 'default-class = complete' >disk/protectfs/config
            case $0 in
                config) mkdir -p "$XDG_CONFIG_HOME/protectfs"; ln -s "$PWD/disk/protectfs/config" "$XDG_CONFIG_HOME/protectfs/config" ;;
                directory) rm -rf "$XDG_CONFIG_HOME/protectfs"; ln -s "$PWD/disk/protectfs" "$XDG_CONFIG_HOME/protectfs" ;;
            esac
            echo text | "$PROTECTFS" write one; echo $?
            mv disk away
            echo text | "$PROTECTFS" write two; echo $(($? != 0)); ls two 2>/dev/null
            """, [link])
        #expect(done.text == "0\n1\n", "\(done.errors)")
        #expect(done.errors.contains("no such file or directory"), "\(done.errors)")
    }
}
