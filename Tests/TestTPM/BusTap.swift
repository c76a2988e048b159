import Foundation
import Synchronization

/// Two ports that lead to a TPM, and everything that went through them: what a sniffer on the bus of a TPM sees.
public final class BusTap: Sendable {
    /// As ``EmulatedTPM/port``.
    public let port: UInt16
    private let reservation: Int32
    private let listeners: [Int32]
    private let recorded = Mutex<[UInt8]>([])

    /// Everything so far, both directions.
    public var bytes: [UInt8] { recorded.withLock { $0 } }

    public init(to emulator: EmulatedTPM) throws {
        (port, reservation) = try EmulatedTPM.reservePorts()
        var listeners: [Int32] = []
        for offset in 0..<2 as Range<UInt16> {
            let listener = EmulatedTPM.newSocket()
            let isBound = EmulatedTPM.isBound(listener, to: port + offset)
            guard isBound, listen(listener, 8) == 0 else { throw EmulatedTPM.Failure(description: "listen: \(errno)") }
            listeners.append(listener)
        }
        self.listeners = listeners
        for (offset, listener) in listeners.enumerated() {
            let target = emulator.port + UInt16(offset)
            Thread { [weak self] in
                while true {
                    let client = accept(listener, nil, nil)
                    guard client >= 0 else { return }
                    let server = EmulatedTPM.newSocket()
                    guard EmulatedTPM.isConnected(server, to: target), let self else {
                        close(client)
                        close(server)
                        continue
                    }
                    self.copy(from: client, to: server)
                    self.copy(from: server, to: client)
                }
            }.start()
        }
    }

    deinit {
        for listener in listeners {
            shutdown(listener, Int32(SHUT_RDWR))
            close(listener)
        }
        close(reservation)
    }

    /// On a thread of its own, until the sender has finished.
    private func copy(from source: Int32, to target: Int32) {
        Thread { [weak self] in
            var buffer = [UInt8](repeating: 0, count: 8192)
            while true {
                let count = recv(source, &buffer, buffer.count, 0)
                guard count > 0 else { break }
                self?.recorded.withLock { $0 += buffer[..<count] }
                guard send(target, buffer, count, 0) == count else { break }
            }
            shutdown(target, Int32(SHUT_WR))
        }.start()
    }
}
