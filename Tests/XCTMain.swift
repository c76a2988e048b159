import Foundation
import Testing

/// Runs the tests. With an entry point of our own SwiftPM looks for no XCTests, for which it would index every build.
///
/// Not `async`: the optimiser gives all such entry points of one program a function of one name, and our workers have one. Nor does
/// it end the main thread, as dispatchMain() does: /proc/self is that of the main thread.
@main enum TestRun {
    static func main() {
        // `swift test` asks for XCTests, too, and there are none.
        guard CommandLine.arguments.contains("swift-testing") else { return }
        // Not of this thread's priority: programs that such a task started had a nice value of -2.
        Task.detached(priority: .medium) { await Testing.__swiftPMEntryPoint() as Never }
        while true { RunLoop.main.run() }
    }
}
