import Glibc

/// How this process took signals before it began to block and ignore some of them.
struct SignalState {
    /// What was blocked.
    private(set) var mask = sigset_t()
    private var actions: [(signal: Int32, action: sigaction)] = []

    /// Blocks and ignores.
    init(blocking set: sigset_t, ignoring signals: [Int32]) {
        var set = set
        sigprocmask(SIG_BLOCK, &set, &mask)
        for signal in signals {
            var action = sigaction()
            sigaction(signal, nil, &action)
            actions.append((signal, action))
            Glibc.signal(signal, SIG_IGN)
        }
    }

    /// Takes them as before.
    func restore() {
        for (signal, action) in actions {
            var action = action
            sigaction(signal, &action, nil)
        }
        var mask = mask
        sigprocmask(SIG_SETMASK, &mask, nil)
    }
}

extension sigset_t {
    /// These signals.
    init(_ signals: [Int32]) {
        self.init()
        sigemptyset(&self)
        for signal in signals { sigaddset(&self, signal) }
    }
}
