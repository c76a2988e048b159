import Foundation
import TestEffort
import Testing

/// What the shells themselves offer, with the scripts that the program writes.
@Suite("Completion in bash, zsh and fish")
struct CompletionTests {
    /// A shell, and a script that prints what it offers for each line given: `== LINE`, then one offer a line.
    ///
    /// The script's `$0` is the completion script.
    enum Shell: String, CaseIterable, CustomTestStringConvertible {
        case bash, zsh, fish

        var testDescription: String { rawValue }

        var isInstalled: Bool {
            ["/bin/", "/usr/bin/"].contains { FileManager.default.isExecutableFile(atPath: $0 + rawValue) }
        }

        var driver: String {
            switch self {
            case .bash:
                """
                source "$0"
                for COMP_LINE in "$@"; do
                    echo "== $COMP_LINE"
                    IFS=' ' read -ra COMP_WORDS <<<"$COMP_LINE"
                    [[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
                    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE} COMPREPLY=()
                    [[ $(complete -p protectfs) =~ -F\\ ([^ ]+) ]]
                    # Outside of an interactive shell there are no options of the completion to change.
                    compopt() { :; }
                    "${BASH_REMATCH[1]}" protectfs "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
                    printf '%s\\n' "${COMPREPLY[@]}"
                done
                """
            case .fish:
                """
                source $argv[1]
                for line in $argv[2..]
                    echo "== $line"
                    complete --do-complete $line
                end
                """
            case .zsh:
                // An interactive zsh on a terminal of its own, whose compadd writes down what it is given.
                """
                zmodload zsh/zpty
                out=$PWD/offers
                setup=$PWD/setup.zsh
                cat >$setup <<END
                PROMPT= ; autoload -Uz compinit; compinit -u -d $PWD/dump; source ${(q)0}
                compdef _protectfs protectfs
                compadd() {
                    if [[ \\${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
                        local -a hits; builtin compadd -A hits "\\$@"; print -rl -- \\$hits >>${(q)out}
                    fi
                    builtin compadd "\\$@"
                }
                done-completing() { print -- "-- done" >>${(q)out} }
                comppostfuncs=(done-completing)
                bindkey '^I' complete-word
                zstyle ':completion:*' completer _complete
                print -- "-- ready" >>${(q)out}
                END
                for line in "$@"; do
                    print -r -- "== $line"
                    : >$out
                    zpty shell "TERM=dumb zsh -f -i"
                    zpty -w shell "source $setup"
                    for ((i = 0; i < 600; i++)); do grep -q ready $out && break; sleep 0.05; done
                    sleep 0.1
                    zpty -w -n shell "$line"$'\\t'
                    for ((i = 0; i < 600; i++)); do grep -q 'done' $out && break; sleep 0.05; done
                    grep -v '^-- ' $out
                    zpty -d shell
                done
                """
            }
        }
    }

    /// What a shell offers for each of these lines.
    private func offers(_ lines: [String], in shell: Shell, _ sandbox: CommandSandbox) throws -> [String: Set<String>] {
        let script = sandbox.path("completion")
        let written = try sandbox.run("--generate-completion-script", shell.rawValue)
        try #require(written.status == 0, "\(written.errors)")
        try written.output.write(to: URL(fileURLWithPath: script))
        let command =
            switch shell {
            case .bash: "exec bash --norc -c \"$0\" \"$@\""
            case .zsh: "exec zsh -f -c \"$0\" \"$@\""
            case .fish: "exec fish --no-config -c \"$0\" \"$@\""
            }
        let done = try sandbox.shell(command, [shell.driver, script] + lines)
        var found: [String: Set<String>] = [:]
        var line: String?
        for output in done.text.split(separator: "\n") {
            if output.hasPrefix("== ") {
                line = String(output.dropFirst(3))
                found[line!] = []
            } else if let line {
                // fish puts its explanation behind a tab.
                let word = output.split(separator: "\t")[0].trimmingCharacters(in: .whitespaces)
                if !word.isEmpty { found[line]?.insert(word) }
            }
        }
        try #require(found.count == lines.count, "\(done.errors)\(done.text)")
        return found
    }

    @Test("The verbs; of each verb its options, and no other; classes, directories, files", arguments: Shell.allCases)
    func completes(shell: Shell) throws {
        guard shell.isInstalled else {
            print("skipped: completion in \(shell.rawValue), which is not installed")
            return
        }
        let sandbox = try CommandSandbox(makesKeybag: false)
        try sandbox.put("", at: "some-directory/some-file")
        let surface = try CommandSurface.ofProgram()
        let general = ["--help", "--version", "-h"]
        // A line takes half a second in fish, and in zsh, which is started for each, more. Each shell begins at another verb.
        let place = Shell.allCases.firstIndex(of: shell)!
        let verbs = Effort.slice(of: surface.verbs.dropFirst(place) + surface.verbs.prefix(place))
        let ofVerbs = verbs.map { ("protectfs \($0.name) -", $0) }
        let (start, classes) = ("protectfs ", "protectfs protect --class ")
        let (directories, files) = ("protectfs status --keybag some", "protectfs cat some-directory/")
        let found = try offers(ofVerbs.map(\.0) + [start, classes, directories, files], in: shell, sandbox)

        let first = Set(surface.verbs.map { String($0.name.split(separator: " ")[0]) })
        #expect(found[start]!.subtracting(general + ["help"]) == first)
        for (line, verb) in ofVerbs {
            let offered = found[line]!.subtracting(general)
            for spelling in verb.spellings {
                #expect(!offered.isDisjoint(with: spelling), "\(line): \(spelling.sorted()) is not offered")
            }
            let foreign = offered.subtracting(verb.options)
            #expect(foreign.isEmpty, "\(line): \(foreign.sorted()) is offered, but not an option")
        }
        #expect(found[classes] == ["complete", "unless-open", "first-unlock", "none"])
        #expect(found[directories]!.contains { $0.hasPrefix("some-directory") }, "\(found[directories]!)")
        #expect(found[files]!.contains { $0.hasSuffix("some-file") }, "\(found[files]!)")
    }
}
