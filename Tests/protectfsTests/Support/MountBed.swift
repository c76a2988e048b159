import Foundation
import Testing

/// Why nothing can be mounted here; nil if it can be.
let whyNoMount: String? = {
    if access("/dev/fuse", R_OK | W_OK) != 0 { return "there is no /dev/fuse that this user may open" }
    let places = ["/usr/bin/fusermount3", "/bin/fusermount3"]
    return places.contains { access($0, X_OK) == 0 } ? nil : "fusermount3 is not installed"
}()

/// A sandbox with a directory `d` of protected files and an empty one, `point`. The mount goes with it.
final class MountBed {
    let sandbox: CommandSandbox
    static let contents = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })

    /// - Parameter parent: where it is made; nil: where temporary files are.
    init(in parent: String? = nil) throws {
        sandbox = try CommandSandbox(in: parent)
        try sandbox.unlock()
        for directory in ["d/sub", "point"] {
            try FileManager.default.createDirectory(
                atPath: sandbox.path(directory), withIntermediateDirectories: true)
        }
        try sandbox.protectedFile("d/complete", Self.contents)
        try sandbox.protectedFile("d/sub/unless-open", Data("b\n".utf8), "unless-open")
        try sandbox.protectedFile("d/first-unlock", Data("c\n".utf8), "first-unlock")
        try sandbox.protectedFile("d/none", Data("d\n".utf8), "none")
        try sandbox.put("plain\n", at: "d/plain")
        symlink("complete", sandbox.path("d/link"))
    }

    /// - Parameter options: of the verb.
    func mount(_ options: String...) throws {
        let done = try sandbox.run(["mount"] + options + ["d", "point"])
        try #require(done.status == 0, "\(done.errors)")
    }

    /// Mounts `d` over itself.
    func mountInPlace(_ options: String...) throws {
        let done = try sandbox.run(["mount"] + options + ["d"])
        try #require(done.status == 0, "\(done.errors)")
    }

    /// Makes a plaintext file of any bytes.
    func store(_ bytes: Data, at name: String) throws {
        try sandbox.put("", at: name)
        try bytes.write(to: URL(fileURLWithPath: sandbox.path(name)))
    }

    deinit {
        _ = try? sandbox.shell(
            "fusermount3 -u -z point 2>/dev/null; fusermount3 -u -z d 2>/dev/null; fusermount3 -u -z d/sub 2>/dev/null")
    }

    /// Runs a line of Python with the name of a file below the mount, and returns what it prints.
    func python(_ script: String, _ arguments: String...) throws -> Finished {
        try sandbox.shell("cd point && exec python3 -c \"$0\" \"$@\"", [script] + arguments)
    }

    /// Python for scripts: `resident(mapping)` counts pages by mincore(2), `run` runs a verb that succeeds, `attempt` catches an errno,
    /// `server` is the process of the mount, `kill` ends it with its guardian, and `end` any process; both wait until it has gone.
    static let prelude = """
        import ctypes, errno, json, mmap, os, signal, subprocess, sys, threading, time
        libc = ctypes.CDLL(None, use_errno=True)
        program, notes = os.environ['PROTECTFS'], os.environ['PROTECTFS_KEYBAG'] + '/run/mounts'
        def resident(mapping):
            view = ctypes.c_char.from_buffer(mapping)
            vector = (ctypes.c_ubyte * ((len(mapping) + 4095) // 4096))()
            assert libc.mincore(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(len(mapping)), vector) == 0
            del view
            return sum(byte & 1 for byte in vector)
        def attempt(call):
            try: return call()
            except OSError as error: return 'ENOTSUP' if error.errno == errno.ENOTSUP else errno.errorcode[error.errno]
        def verb(*words):
            if words[0] == 'unlock': os.lseek(9, 0, os.SEEK_SET)
            return subprocess.run([program] + list(words), pass_fds=[9], capture_output=True, text=True)
        def run(*words):
            done = verb(*words)
            assert done.returncode == 0, (words, done)
        def unlock(): run('unlock', '--passcode-fd', '9')
        def mapped(name):
            with open(name, 'rb') as file: mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
            assert len(bytes(mapping)) == os.stat(name).st_size
            return mapping
        def noted(): return [int(name.split('.')[0]) for name in os.listdir(notes)]
        def server():
            return ([process for process in noted() if not gone(process)] or noted())[0]
        def successor(dead):
            # Another server has taken over, and has dropped what was cached before.
            assert waited(lambda: len(os.listdir(notes)) == 1 and server() != dead)
            return server()
        def waited(condition):
            for _ in range(2000):
                if condition(): return True
                time.sleep(0.01)
            return False
        def gone(process):
            # The first thread can be a zombie while others still have files open and locked.
            try:
                with open('/proc/%d/stat' % process) as file: state = file.read().rsplit(')', 1)[1].split()[0]
                return state == 'Z' and len(os.listdir('/proc/%d/task' % process)) <= 1
            except OSError: return True
        def guardian(process):
            for name in os.listdir('/proc'):
                try:
                    with open('/proc/%s/stat' % name) as file: parent = int(file.read().rsplit(')', 1)[1].split()[1])
                    with open('/proc/%s/cmdline' % name, 'rb') as file: words = file.read().split(b'\\0')
                except (OSError, IndexError): continue
                if parent == process and b'--guard' in words: return int(name)
        def stopped(process):
            try:
                for thread in os.listdir('/proc/%d/task' % process):
                    with open('/proc/%d/task/%s/stat' % (process, thread)) as file:
                        if file.read().rsplit(')', 1)[1].split()[0] not in 'TZ': return False
                return True
            except OSError: return False
        def stop(process):
            # One thread takes the signal and stops the others, which go on until then.
            os.kill(process, signal.SIGSTOP)
            assert waited(lambda: stopped(process))
        def end(process):
            os.kill(process, signal.SIGKILL)
            assert waited(lambda: gone(process))
        def later(script):
            # A process that has nothing open in the mount: closing that would wait while nobody answers.
            process = subprocess.Popen(['sh', '-c', 'read line; ' + script], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            def go():
                process.communicate(b'\\n')
                return process.returncode
            return go
        def endAll():
            # Each server as soon as it has a guardian, until that tries no other one.
            for _ in range(4000):
                if not os.listdir(notes): return
                for process in noted():
                    if not gone(process) and guardian(process): end(process)
                time.sleep(0.005)
        def kill(process):
            # The guardian first, which would clear what is left.
            if guardian(process): end(guardian(process))
            end(process)

        """

    /// Runs a script that begins with ``prelude``. The passcode is descriptor 9.
    ///
    /// - Parameters:
    ///   - isInside: whether it runs in the mount, and not beside it.
    ///   - directory: the one that it runs in, then.
    func script(
        _ script: String, _ arguments: String..., isInside: Bool = true, in directory: String = "point"
    ) throws -> Finished { try self.script(script, arguments, isInside: isInside, in: directory) }

    /// The same with a list of arguments.
    func script(
        _ script: String, _ arguments: [String], isInside: Bool = true, in directory: String = "point"
    ) throws -> Finished {
        try sandbox.shell(
            """
            printf %s "$1" >passcode && exec 9<passcode && cd "$2" && script=$0 && shift 2 && exec python3 -c "$script" "$@"
            """,
            [Self.prelude + script, CommandSandbox.passcode, isInside ? directory : "."] + arguments)
    }
}
