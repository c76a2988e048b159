import Glibc

/// Words as posix_spawn(3) and execvp(3) take them: C strings, and a null pointer behind the last one.
package final class CWords {
    package var pointers: [UnsafeMutablePointer<CChar>?]

    package init(_ words: [[UInt8]]) {
        pointers = words.map { word in
            (word + [0]).withUnsafeBytes { strdup($0.assumingMemoryBound(to: CChar.self).baseAddress!) }
        }
        pointers.append(nil)
    }

    deinit { for pointer in pointers { free(pointer) } }
}

extension CWords {
    package convenience init(_ words: [String]) { self.init(words.map { Array($0.utf8) }) }
}
