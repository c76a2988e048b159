import DataProtection
import FuseSession
import ProtectedFiles
import ProtectionKeys

extension OpenedFiles {
    /// The class of the files that have these nodes, as far as every open handle can be read now and none is `complete`.
    func readable(_ nodes: [FuseNode]) -> [FuseNode: ProtectionClass] {
        if nodes.isEmpty { return [:] }
        let asked = Set(nodes)
        var classes: [FuseNode: ProtectionClass] = [:]
        var others: Set<FuseNode> = []
        for opened in handles.values where asked.contains(opened.node) {
            let file: ProtectedFile
            switch opened {
            case .plaintext: continue
            case .reading(let own, _): file = own
            case .writing(let written): file = written.file
            }
            let node = opened.node
            if let now = try? file.openedClass(), now != .complete { classes[node] = now } else { others.insert(node) }
        }
        return classes.filter { !others.contains($0.key) }
    }
}
