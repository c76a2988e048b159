import MountRules
import SystemPackage
import TestEffort
import Testing

@Suite("The nodes of a mount")
struct NodeTableTests {
    private static func identity(_ inode: UInt64) -> NodeTable.Identity { NodeTable.Identity(device: 1, inode: inode) }
    private var table = NodeTable(root: Self.identity(2))

    @Test("A file is one node under all its names, found at the last one")
    mutating func hardLinks() {
        let directory = table.found(Self.identity(10), as: "d", in: NodeTable.root)
        let file = table.found(Self.identity(11), as: "a", in: directory)
        let step1 = table.found(Self.identity(11), as: "b", in: NodeTable.root)
        #expect(step1 == file)
        #expect(table.place(of: file)?.name == "b")
        #expect(table.place(of: file)?.parent == NodeTable.root)
        #expect(table.place(of: directory)?.name == "d")
        #expect(table.place(of: NodeTable.root) == nil)
    }

    @Test("The way to a node begins behind the nearest one that is reached already")
    mutating func way() {
        let one = table.found(Self.identity(10), as: "1", in: NodeTable.root)
        let two = table.found(Self.identity(11), as: "2", in: one)
        let three = table.found(Self.identity(12), as: "3", in: two)
        #expect(table.way(to: three) { _ in false } == [three, two, one])
        #expect(table.way(to: three) { $0 == one } == [three, two])
        #expect(table.way(to: three) { $0 == three } == [])
        #expect(table.way(to: NodeTable.root) { _ in false } == [])
    }

    @Test("A node lives until the kernel has dropped all its entries, and those below it")
    mutating func forgotten() {
        let directory = table.found(Self.identity(10), as: "d", in: NodeTable.root)
        let file = table.found(Self.identity(11), as: "a", in: directory)
        let step2 = table.found(Self.identity(11), as: "a", in: directory)
        #expect(step2 == file)
        let step3 = table.forget(directory, 1)
        #expect(step3 == [])
        #expect(table.way(to: file) { _ in false } == [file, directory])
        let step4 = table.forget(file, 1)
        #expect(step4 == [])
        let step5 = table.forget(file, 1)
        #expect(step5 == [file, directory])
        #expect(table.way(to: file) { _ in false } == nil)
        #expect(table.count == 1)
    }

    @Test("A number is not used again, and the root is never forgotten")
    mutating func numbers() {
        let first = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        table.forget(first, 1)
        let step6 = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        #expect(step6 != first)
        let step7 = table.forget(NodeTable.root, 5)
        #expect(step7 == [])
        #expect(table.identity(of: NodeTable.root) == Self.identity(2))
    }

    @Test("Places that were found at different times can make a circle, which leads nowhere")
    mutating func circle() {
        let a = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        let b = table.found(Self.identity(11), as: "b", in: a)
        let step8 = table.found(Self.identity(10), as: "a", in: b)
        #expect(step8 == a)
        #expect(table.way(to: b) { _ in false } == nil)
    }

    @Test("More is forgotten than was given out: nothing breaks")
    mutating func tooMany() {
        let file = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        let step9 = table.forget(file, 99)
        #expect(step9 == [file])
        let step10 = table.forget(file, 1)
        #expect(step10 == [])
        let step11 = table.forget(12345, 1)
        #expect(step11 == [])
    }

    @Test("A renamed file is where it is now, and its old directory is given up with the last one in it")
    mutating func moved() {
        let old = table.found(Self.identity(10), as: "old", in: NodeTable.root)
        let new = table.found(Self.identity(11), as: "new", in: NodeTable.root)
        let file = table.found(Self.identity(12), as: "a", in: old)
        table.moved(Self.identity(12), to: "b", in: new)
        #expect(table.place(of: file)?.parent == new && table.place(of: file)?.name == "b")
        let forgotten = table.forget(old, 1)
        #expect(forgotten == [old])
        table.moved(Self.identity(99), to: "x", in: new)
        #expect(table.count == 3)
    }

    @Test("After its last name, an inode number means another file; the old node stays for those that have it open")
    mutating func removed() {
        let old = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        table.removed(Self.identity(10))
        let new = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        #expect(new != old)
        #expect(table.identity(of: old) == Self.identity(10))
        let forgotten = table.forget(old, 1)
        #expect(forgotten == [old])
        let again = table.found(Self.identity(10), as: "a", in: NodeTable.root)
        #expect(again == new)
    }

    @Test("A chain of any depth is forgotten at once")
    mutating func deep() {
        var (node, chain) = (NodeTable.root, [UInt64]())
        for inode in 10..<200_010 as Range<UInt64> {
            node = table.found(Self.identity(inode), as: "d", in: node)
            chain.append(node)
        }
        for node in chain.dropLast() { #expect(table.forget(node, 1) == []) }
        #expect(table.forget(node, 1) == chain.reversed())
        #expect(table.count == 1)
    }

    @Test("From its log another process makes the same table, from every change or from the table as it is")
    func logged() throws {
        var random = Effort.generator("NodeTableTests.logged")
        for _ in 0..<Effort.count(20, 500) {
            var (table, log) = (NodeTable(root: Self.identity(2)), [UInt8]())
            for _ in 0..<300 {
                let identity = Self.identity(.random(in: 10..<40, using: &random))
                let text: [CChar] = [.random(in: -128...(-1), using: &random), 97, 0]
                let name = try #require(FilePath.Component(platformString: text))
                let place = NodeTable.Place(parent: .random(in: 1..<30, using: &random), name: name)
                let entry: NodeLog.Entry =
                    switch Int.random(in: 0..<8, using: &random) {
                    case 0..<3: .found(identity, place)
                    case 3: .seen(.random(in: 1..<30, using: &random))
                    case 4: .moved(identity, place)
                    case 5: .removed(identity)
                    default: .forgotten(.random(in: 1..<60, using: &random), count: .random(in: 1...2, using: &random))
                    }
                table.apply(entry)
                log += NodeLog.encode(entry)
            }
            for log in [log, table.log.flatMap { NodeLog.encode($0) }] {
                var same = NodeTable(root: Self.identity(2))
                let entries = try #require(log.withUnsafeBytes { NodeLog.decode($0) })
                for entry in entries { same.apply(entry) }
                #expect(Set(same.log) == Set(table.log))
                var table = table
                let numbers = [
                    same.found(Self.identity(99), as: "x", in: 1), table.found(Self.identity(99), as: "x", in: 1),
                ]
                #expect(numbers[0] == numbers[1])
            }
        }
    }

    @Test("Bytes that are no log are refused")
    func noLog() {
        let good = NodeLog.encode(.forgotten(7, count: 1))
        for count in 1..<good.count { #expect(Array(good[..<count]).withUnsafeBytes { NodeLog.decode($0) } == nil) }
        for kind in [0, 9, 255] as [UInt8] {
            var bytes = good
            bytes[4] = kind
            #expect(bytes.withUnsafeBytes { NodeLog.decode($0) } == nil)
        }
        let nameless = NodeLog.encode(.removed(Self.identity(3)))
        #expect(nameless.withUnsafeBytes { NodeLog.decode($0) } == [.removed(Self.identity(3))])
    }
}
