import SystemPackage

/// What screensavers say on the session bus. Any program of the session can say it too: nothing of it is proof of anything
/// but a reason to lock.
final class Screensavers: BusListener {
    /// Interface, which is the name on the bus too, and where it is.
    private static let interfaces = [
        ("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver"),
        ("org.gnome.ScreenSaver", "/org/gnome/ScreenSaver"),
        ("org.kde.screensaver", "/ScreenSaver"), ("org.cinnamon.ScreenSaver", "/org/cinnamon/ScreenSaver"),
        ("org.mate.ScreenSaver", "/org/mate/ScreenSaver"), ("org.xfce.ScreenSaver", "/org/xfce/ScreenSaver"),
    ]

    let connection: BusConnection
    private var questions: Set<UInt64> = []

    init(_ connection: BusConnection) { self.connection = connection }

    func begin(again: Bool) throws(Errno) -> [SessionEvent] {
        for (interface, _) in Self.interfaces {
            try connection.listen(to: "type='signal',interface='\(interface)',member='ActiveChanged'")
        }
        // One may be up already. The answers are not waited for: one that hangs must not hold up what logind says.
        for (interface, path) in Self.interfaces {
            let request = try connection.request("GetActive", of: interface, at: path, from: interface)
            questions.insert(try connection.send(request))
        }
        return again ? [.back(.screensaver)] : []
    }

    func events(of message: BusMessage) throws(Errno) -> [SessionEvent] {
        if let cookie = message.answersTo, questions.remove(cookie) != nil {
            guard let isActive = try? message.bool() else { return [] }
            return isActive ? [.screensaverBegan] : []
        }
        guard Self.interfaces.contains(where: { message.isSignal("ActiveChanged", of: $0.0) }) else { return [] }
        // Anybody can send nonsense.
        guard let isActive = try? message.bool() else { return [] }
        return [isActive ? .screensaverBegan : .screensaverEnded]
    }
}
