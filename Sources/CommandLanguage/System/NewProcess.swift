import CSpawn
import DataProtection
import Glibc

/// A program to be started, by posix_spawn(3). It inherits everything that is not set here.
///
///     var shell = NewProcess("/bin/sh", ["sh", "-c", script])
///     shell.descriptors = [(0, .copy(of: reader)), (1, .null)]
///     let pid = try shell.start()
package struct NewProcess {
    /// What a descriptor of the new process leads to.
    package enum Target {
        /// To what this one of ours leads to, or one of its own that was named before.
        case copy(of: Int32)
        /// To /dev/null.
        case null
    }

    private let program: FilePath
    private let words: [[UInt8]]
    /// `NAME=value`, in place of ours.
    package var environment: [[UInt8]]?
    /// Set in this order: a number that was set before has its new meaning then.
    package var descriptors: [(number: Int32, target: Target)] = []
    /// Signals that end it as they usually do, though we may ignore them; and those that are blocked in it.
    package var signals: (usual: [Int32], blocked: sigset_t)?
    /// Neither our terminal's Ctrl-C nor a signal to our process group reaches it then.
    package var isInSessionOfItsOwn = false
    /// Its working directory.
    package var directory: String?

    /// - Parameters:
    ///   - program: is searched in PATH if it has no slash.
    ///   - words: its arguments, the name by which it is called first.
    package init(_ program: FilePath, _ words: [[UInt8]]) { (self.program, self.words) = (program, words) }

    package init(_ program: FilePath, _ words: [String]) { self.init(program, words.map { Array($0.utf8) }) }

    /// - Returns: the process, which somebody has to wait for.
    package func start() throws(Errno) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, target) in descriptors {
            switch target {
            case .copy(let descriptor): posix_spawn_file_actions_adddup2(&actions, descriptor, number)
            case .null: posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
            }
        }
        if let directory { protectfs_spawn_in_directory(&actions, directory) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var flags: Int16 = 0
        if isInSessionOfItsOwn { flags |= protectfs_spawn_in_new_session }
        if let signals {
            var (usual, blocked) = (sigset_t(), signals.blocked)
            for signal in signals.usual { sigaddset(&usual, signal) }
            posix_spawnattr_setsigdefault(&attributes, &usual)
            posix_spawnattr_setsigmask(&attributes, &blocked)
            flags |= Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
        }
        posix_spawnattr_setflags(&attributes, flags)

        let words = CWords(words)
        var child = pid_t()
        let error = program.withPlatformString { program in
            guard let environment else {
                return posix_spawnp(&child, program, &actions, &attributes, &words.pointers, environ)
            }
            let variables = CWords(environment)
            return posix_spawnp(&child, program, &actions, &attributes, &words.pointers, &variables.pointers)
        }
        guard error == 0 else { throw Errno(rawValue: error) }
        return child
    }

    /// Waits until a child of ours has ended.
    ///
    /// - Returns: its exit status, or 128 and the number of the signal that ended it.
    @discardableResult
    package static func wait(for child: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(child, &status, 0) == -1 && errno == EINTR {}
        let signal = status & 0x7F
        return signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }
}
