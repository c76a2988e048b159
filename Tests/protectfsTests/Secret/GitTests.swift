import DataProtection
import FaultServer
import Foundation
import Testing

/// With the git that is installed.
@Suite("protectfs secret with git and ssh")
struct SecretGitTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        // As ./install puts them.
        try FileManager.default.createDirectory(atPath: sandbox.path("bin"), withIntermediateDirectories: false)
        let program = FilePath(CommandSandbox.executable).removingLastComponent().appending("protectfs-secrets").string
        for name in ["git-credential-protectfs", "protectfs-askpass"] {
            try FileManager.default.createSymbolicLink(
                atPath: sandbox.path("bin/\(name)"), withDestinationPath: program)
        }
    }

    private func git(_ words: String, input: String = "") throws -> Finished {
        try sandbox.shell(
            "PATH=$PWD/bin:$PATH GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 git -c credential.helper=protectfs \(words)",
            input: Data(input.utf8))
    }

    private let place = "protocol=https\nhost=example.org:8443\n"

    @Test("approve, fill, reject")
    func roundTrip() throws {
        #expect(try git("credential fill", input: place + "\n").status != 0)
        #expect(try git("credential approve", input: place + "username=kim\npassword=a=b c\n\n").status == 0)
        let filled = try git("credential fill", input: place + "\n")
        #expect(filled.text.contains("username=kim\npassword=a=b c\n"), "\(filled.errors)")
        #expect(try sandbox.run("secret", "find").text == "internet  when-unlocked  'https://kim@example.org:8443'\n")
        // Another password was refused: ours stays.
        #expect(try git("credential reject", input: place + "username=kim\npassword=old\n\n").status == 0)
        #expect(try git("credential fill", input: place + "\n").status == 0)
        // While locked there is none, and git says what our helper says.
        #expect(try sandbox.run("lock").status == 0)
        let locked = try git("credential fill", input: place + "\n")
        #expect(locked.status != 0 && locked.errors.contains("class complete, locked since"), "\(locked.errors)")
        try sandbox.unlock()
        #expect(try git("credential reject", input: place + "username=kim\npassword=a=b c\n\n").status == 0)
        #expect(try git("credential fill", input: place + "\n").status != 0)
    }

    @Test("Of two accounts none is chosen, unless git says which")
    func accounts() throws {
        for name in ["kim", "lee"] {
            _ = try git("credential approve", input: place + "username=\(name)\npassword=of \(name)\n\n")
        }
        let both = try git("credential fill", input: place + "\n")
        #expect(
            both.status != 0 && both.errors.contains("2 accounts of 'example.org': none is chosen"), "\(both.errors)")
        #expect(try git("credential fill", input: place + "username=lee\n\n").text.contains("password=of lee\n"))
    }

    @Test("A password kept with a realm is not kept again without one; a new one opens only while unlocked")
    func realm() throws {
        #expect(
            try sandbox.run(
                [
                    "secret", "add", "--host", "example.org", "--port", "8443", "--realm", "Git", "--account", "kim",
                    "--accessibility", "after-first-unlock",
                ], input: Data("of kim\n".utf8)
            ).status == 0)
        #expect(try git("credential fill", input: place + "\n").text.contains("password=of kim\n"))
        #expect(try git("credential approve", input: place + "username=kim\npassword=another\n\n").status == 0)
        #expect(
            try sandbox.run("secret", "find").text
                == "internet  when-unlocked  'https://kim@example.org:8443 (Git)'\n")
        #expect(try git("credential fill", input: place + "\n").text.contains("password=another\n"))
    }

    /// A clone over HTTP from a server that asks for a password: git gets it from us, then keeps what was typed.
    @Test("A clone from a server that asks for a password")
    func clone() throws {
        guard FileManager.default.fileExists(atPath: "/usr/lib/git-core/git-http-backend") else {
            return print("skipped: a clone by git: there is no git-http-backend")
        }
        let server = """
            import base64, http.server, os, subprocess, sys
            class Handler(http.server.BaseHTTPRequestHandler):
                def log_message(self, *words): pass
                def answer(self):
                    given = self.headers.get("Authorization", "")
                    if given != "Basic " + base64.b64encode(b"kim:the pass").decode():
                        self.send_response(401)
                        self.send_header("WWW-Authenticate", 'Basic realm="git"')
                        self.send_header("Content-Length", "0")
                        self.end_headers()
                        return
                    path, _, query = self.path.partition("?")
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                    done = subprocess.run(["/usr/lib/git-core/git-http-backend"], input=body, capture_output=True, env=dict(
                        os.environ, GIT_PROJECT_ROOT=sys.argv[1], GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
                        QUERY_STRING=query, REQUEST_METHOD=self.command,
                        CONTENT_TYPE=self.headers.get("Content-Type") or "", REMOTE_USER="kim"))
                    head, _, rest = done.stdout.partition(b"\\r\\n\\r\\n")
                    self.send_response(200)
                    for line in head.split(b"\\r\\n"):
                        name, _, value = line.decode().partition(": ")
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(rest)))
                    self.end_headers()
                    self.wfile.write(rest)
                do_GET = do_POST = answer
            server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
            print(server.server_port, flush=True)
            server.serve_forever()
            """
        let made = try sandbox.shell(
            """
            git init -q --bare r.git && git init -q w && cd w && echo text >file && git add file &&
            git -c user.name=kim -c user.email=kim@example.org commit -qm first && git push -q ../r.git HEAD:main &&
            git --git-dir=../r.git symbolic-ref HEAD refs/heads/main
            """)
        #expect(made.status == 0, "\(made.errors)")
        let done = try sandbox.shell(
            """
            python3 -c "$0" "$PWD" >port & server=$!
            trap 'kill -KILL $server' EXIT
            while ! [ -s port ]; do sleep 0.05; done
            port=$(cat port)
            export PATH=$PWD/bin:$PATH GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1
            git -c credential.helper=protectfs clone -q http://127.0.0.1:$port/r.git none && exit 1
            printf 'the pass\\n' | "$PROTECTFS" secret add --protocol http --host 127.0.0.1 --port $port --account kim
            git -c credential.helper=protectfs clone -q http://127.0.0.1:$port/r.git helped || exit 2
            cat helped/file
            GIT_ASKPASS=protectfs-askpass git -c credential.helper= clone -q http://127.0.0.1:$port/r.git asked || exit 3
            cat asked/file
            """, [server])
        #expect(done.status == 0 && done.text == "text\ntext\n", "\(done.status) \(done.errors)")
    }

    @Test("The passphrase of an ssh key, by SSH_ASKPASS")
    func sshKey() throws {
        guard FileManager.default.fileExists(atPath: "/usr/bin/ssh-add") else {
            return print("skipped: ssh-add is not installed")
        }
        #expect(try sandbox.shell("ssh-keygen -q -t ed25519 -N 'a phrase' -f key").status == 0)
        let key = sandbox.path("key")
        let ask = """
            PATH=$PWD/bin:$PATH SSH_ASKPASS=$PWD/bin/protectfs-askpass SSH_ASKPASS_REQUIRE=force \
                ssh-agent sh -c 'ssh-add -q "$0" && ssh-add -l' "$PWD/key"
            """
        #expect(try sandbox.shell(ask).status != 0)
        #expect(
            try sandbox.run(
                ["secret", "add", "--service", "ssh-key", "--account", key], input: Data("a phrase\n".utf8)
            ).status == 0)
        let done = try sandbox.shell(ask)
        #expect(done.status == 0 && done.text.contains("(ED25519)"), "\(done.errors)")
    }

    @Test("A name that is not UTF-8 is refused: it would look like another one, and take its secret")
    func otherBytes() throws {
        let done = try sandbox.shell(
            #"""
            for name in "$(printf '\377')" "$(printf '\376')"; do
                printf value | "$PROTECTFS" secret set --service "$name" 2>/dev/null; echo $?
                "$PROTECTFS" secret get "$name" 2>/dev/null; echo $?
                printf 'protocol=https\nhost=example.org\nusername=%s\npassword=p\n\n' "$name" |
                    bin/git-credential-protectfs store 2>/dev/null; echo $?
            done
            printf value | "$PROTECTFS" secret set --service "$(printf '\377')" --account "$(printf '\376')" 2>/dev/null; echo $?
            "$PROTECTFS" secret find
            """#)
        #expect(done.text == "64\n64\n64\n64\n64\n64\n64\n", "\(done.text) \(done.errors)")
    }
}
