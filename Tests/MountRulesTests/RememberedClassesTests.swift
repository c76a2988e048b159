import MountRules
import SystemPackage
import Testing

@Suite("The classes of files that lost their names in a mount")
struct RememberedClassesTests {
    private func name(_ name: String, in inode: UInt64 = 1) -> RememberedClasses.Name {
        .init(FilePath.Component(name)!, in: NodeTable.Identity(device: 1, inode: inode))
    }

    @Test("A name has the class of the last file that lost it, in its directory only")
    func last() {
        var classes = RememberedClasses()
        classes.remember(.complete, as: name("a"))
        #expect(classes.protectionClass(of: name("a")) == .complete)
        #expect(classes.protectionClass(of: name("b")) == nil)
        #expect(classes.protectionClass(of: name("a", in: 2)) == nil)
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
}
