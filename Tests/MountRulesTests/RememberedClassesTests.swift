import MountRules
import SystemPackage
import Testing

@Suite("The classes of files that lost their names in a mount")
struct RememberedClassesTests {
    private func name(_ name: String, in directory: FilePath = "d") -> FilePath { directory.appending(name) }

    @Test("A name has the class of the last file that lost it, in its directory only")
    func last() {
        var classes = RememberedClasses()
        classes.remember(.complete, as: name("a"))
        #expect(classes.protectionClass(of: name("a")) == .complete)
        #expect(classes.protectionClass(of: name("b")) == nil)
        #expect(classes.protectionClass(of: name("a", in: "d/d")) == nil)
        classes.remember(.completeUnlessOpen, as: name("a"))
        #expect(classes.protectionClass(of: name("a")) == .completeUnlessOpen)
    }

    @Test("When there are too many names, the oldest is forgotten")
    func oldest() {
        var classes = RememberedClasses(limit: 3)
        for number in 0..<5 {
            classes.remember(.complete, as: name("\(number)"))
            classes.remember(.complete, as: name("\(number)"))
        }
        let known = (0..<5).map { classes.protectionClass(of: name("\($0)")) != nil }
        #expect(known == [false, false, true, true, true])
    }

    @Test("A renamed directory takes along what was remembered in it, and leaves it behind too")
    func moved() {
        var classes = RememberedClasses()
        for path in ["d/a", "d/e/b", "de/c", "d"] as [FilePath] { classes.remember(.complete, as: path) }
        _ = classes.moved(directory: "d", to: "x/y")
        #expect(
            classes.protectionClass(of: "x/y/a") == .complete && classes.protectionClass(of: "x/y/e/b") == .complete)
        #expect(classes.protectionClass(of: "d/a") == .complete)
        #expect(classes.protectionClass(of: "x/y") == nil && classes.protectionClass(of: "x/ye/c") == nil)
    }
}
