import CFuse
import Glibc
import SystemPackage

/// Requests that change something.
extension FuseRequest {
    // MARK: open files

    func create(
        _ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, mode: mode_t,
        _ info: UnsafeMutablePointer<fuse_file_info>?
    ) {
        answer { () throws(Errno) in
            guard let info else { throw .invalidArgument }
            let (entry, handle) = try files.create(
                try component(name), in: directory, mode: mode & 0o7777, flags: info.pointee.flags)
            handle.put(in: info)
            var parameter = entry.parameter
            if fuse_reply_create(request, &parameter, info) != 0 {
                files.release(handle.number, of: entry.node)
                files.forget(entry.node, 1)
            }
        }
    }

    func write(
        _ node: fuse_ino_t, _ bytes: UnsafePointer<CChar>?, _ count: Int, at offset: off_t,
        _ info: UnsafeMutablePointer<fuse_file_info>?
    ) {
        answer { () throws(Errno) in
            guard let info, offset >= 0 else { throw .invalidArgument }
            // With the pages of mappings come no flags.
            let flags = info.pointee.flags & O_ACCMODE == O_RDONLY ? O_RDWR : info.pointee.flags
            try files.write(
                info.pointee.fh, flags: flags, of: node, at: UInt64(offset),
                UnsafeRawBufferPointer(start: bytes, count: count),
                info.pointee.writepage != 0 ? .page : info.pointee.flags & O_APPEND != 0 ? .atEnd : .there)
            fuse_reply_write(request, count)
        }
    }

    func flush(_ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info else { throw .invalidArgument }
            try files.flush(info.pointee.fh, of: node)
            fuse_reply_err(request, 0)
        }
    }

    func synchronize(_ node: fuse_ino_t, _ info: UnsafeMutablePointer<fuse_file_info>?) {
        answer { () throws(Errno) in
            guard let info else { throw .invalidArgument }
            try files.synchronize(info.pointee.fh, of: node)
            fuse_reply_err(request, 0)
        }
    }

    func synchronizeDirectory(_ node: fuse_ino_t) {
        answer { () throws(Errno) in
            try files.synchronizeDirectory(node)
            fuse_reply_err(request, 0)
        }
    }

    // MARK: names

    func makeDirectory(_ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, mode: mode_t) {
        answer { () throws(Errno) in
            reply(try files.makeDirectory(try component(name), in: directory, mode: mode & 0o7777))
        }
    }

    func makeNode(_ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, mode: mode_t) {
        answer { () throws(Errno) in
            reply(try files.makeNode(try component(name), in: directory, mode: mode))
        }
    }

    func makeLink(_ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, to target: UnsafePointer<CChar>?) {
        answer { () throws(Errno) in
            guard let target else { throw .invalidArgument }
            reply(try files.makeLink(try component(name), in: directory, to: target))
        }
    }

    func link(_ node: fuse_ino_t, as name: UnsafePointer<CChar>?, in directory: fuse_ino_t) {
        answer { () throws(Errno) in
            reply(try files.link(node, as: try component(name), in: directory))
        }
    }

    func remove(_ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, isDirectory: Bool) {
        answer { () throws(Errno) in
            try files.remove(try component(name), in: directory, isDirectory: isDirectory)
            fuse_reply_err(request, 0)
        }
    }

    func rename(
        _ name: UnsafePointer<CChar>?, in directory: fuse_ino_t, to newName: UnsafePointer<CChar>?,
        in newDirectory: fuse_ino_t, flags: UInt32
    ) {
        answer { () throws(Errno) in
            try files.rename(
                try component(name), in: directory, to: try component(newName), in: newDirectory, flags: flags)
            fuse_reply_err(request, 0)
        }
    }

    // MARK: attributes

    func change(
        _ node: fuse_ino_t, _ attributes: UnsafeMutablePointer<stat>?, _ mask: Int32,
        _ info: UnsafeMutablePointer<fuse_file_info>?
    ) {
        answer { () throws(Errno) in
            guard let attributes else { throw .invalidArgument }
            let change = FuseChange(attributes.pointee, mask)
            reply(try files.change(node, change, handle: info?.pointee.fh))
        }
    }

    func setAttribute(
        _ name: UnsafePointer<CChar>?, of node: fuse_ino_t, to value: UnsafePointer<CChar>?, _ count: Int, flags: Int32
    ) {
        answer { () throws(Errno) in
            let bytes = UnsafeRawBufferPointer(start: value, count: value == nil ? 0 : count)
            try files.setAttribute(try attributeName(name), of: node, to: Array(bytes), flags: flags)
            fuse_reply_err(request, 0)
        }
    }

    func removeAttribute(_ name: UnsafePointer<CChar>?, of node: fuse_ino_t) {
        answer { () throws(Errno) in
            try files.removeAttribute(try attributeName(name), of: node)
            fuse_reply_err(request, 0)
        }
    }

    /// Names of attributes are text for us.
    private func attributeName(_ name: UnsafePointer<CChar>?) throws(Errno) -> String {
        guard let name = name.flatMap({ String(validatingCString: $0) }) else { throw .notSupported }
        return name
    }
}

extension FuseChange {
    /// - Parameter mask: which of the attributes are meant: `FUSE_SET_ATTR_…` of fuse_lowlevel.h.
    fileprivate init(_ attributes: stat, _ mask: Int32) {
        func has(_ bit: Int32) -> Bool { mask & bit != 0 }
        if has(FUSE_SET_ATTR_MODE) { mode = attributes.st_mode & 0o7777 }
        if has(FUSE_SET_ATTR_UID) { owner = attributes.st_uid }
        if has(FUSE_SET_ATTR_GID) { group = attributes.st_gid }
        if has(FUSE_SET_ATTR_SIZE) { size = UInt64(max(attributes.st_size, 0)) }
        if has(FUSE_SET_ATTR_ATIME) { accessed = has(FUSE_SET_ATTR_ATIME_NOW) ? .now : .at(attributes.st_atim) }
        if has(FUSE_SET_ATTR_MTIME) { modified = has(FUSE_SET_ATTR_MTIME_NOW) ? .now : .at(attributes.st_mtim) }
    }
}

extension FuseHandle {
    func put(in info: UnsafeMutablePointer<fuse_file_info>) {
        info.pointee.fh = number
        info.pointee.direct_io = isWriting ? 1 : 0
        info.pointee.noflush = isWriting ? 0 : 1
    }
}
