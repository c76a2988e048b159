import Foundation
import Testing

/// Names, sizes, links and attributes that a mount shows.
@Suite("mount: names and attributes", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountNameTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    @Test("Names of 255 bytes, and names that are no UTF-8, are listed, opened and read, as links too")
    func bytes() throws {
        let done = try bed.script(
            """
            names = [b'x' * 255, b'\\xff\\xfe', b' ', b'a\\nb', b'-rf', '\\u00e9'.encode(), 'e\\u0301'.encode(), b'\\\\040']
            os.mkdir(b'd/names')
            for name in names:
                done = subprocess.run([program, 'write', '--class', 'complete', b'd/names/' + name], input=name)
                assert done.returncode == 0
                os.symlink(name, b'd/names/l-' + name[:250])
            os.mkdir(b'd/names/\\xfd')
            run('mount', 'd', 'point')
            print(sorted(os.listdir(b'point/names')) == sorted(os.listdir(b'd/names')))
            print([open(b'point/names/' + name, 'rb').read() == name for name in names].count(True))
            print([open(b'point/names/l-' + name[:250], 'rb').read() == name for name in names].count(True))
            print([os.stat(b'point/names/' + name).st_size == len(name) for name in names].count(True))
            print(attempt(lambda: os.stat(b'point/names/' + b'x' * 256)), attempt(lambda: os.stat(b'point/names/y')))
            print(os.statvfs('point').f_namemax)
            """, isInside: false)
        #expect(done.text == "True\n8\n8\n8\nENAMETOOLONG ENOENT\n255\n", "\(done.errors)")
    }

    @Test("A thousand files are listed with their sizes, and again after rewinddir(3) with what came meanwhile")
    func many() throws {
        for number in 0..<1000 { try bed.store(Data(repeating: 7, count: number), at: "d/many/\(number)") }
        #expect(try sandbox.run("protect", "--recursive", "--yes", "d/many").status == 0)
        try bed.mount()
        let done = try bed.script(
            """
            for _ in range(2):
                print(sum(entry.stat().st_size for entry in os.scandir('many') if entry.name == str(entry.stat().st_size)))
                run('lock')
            class Entry(ctypes.Structure):
                _fields_ = [('ino', ctypes.c_ulong), ('off', ctypes.c_long), ('length', ctypes.c_ushort), ('type', ctypes.c_ubyte),
                            ('name', ctypes.c_char * 256)]
            libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
            libc.readdir.argtypes = libc.rewinddir.argtypes = [ctypes.c_void_p]
            directory = libc.opendir(b'many')
            def names():
                found = set()
                while entry := libc.readdir(directory): found.add(Entry.from_address(entry).name)
                return len(found)
            print(names())
            open('../d/many/new', 'w').close()
            libc.rewinddir(directory)
            print(names())
            """)
        #expect(done.text == "499500\n499500\n1002\n1003\n", "\(done.errors)")
    }

    @Test(
        "Classes of files and default classes of directories are attributes; other attributes are shown and listed, the class is not"
    )
    func attributes() throws {
        try sandbox.put("", at: "d/none-yet")
        let done = try bed.script(
            """
            def set(name, attribute, value): return attempt(lambda: os.setxattr(name, attribute, value))
            if set('d/plain', 'user.long', b'v' * 1000) == 'ENOTSUP': print('no attributes here'); sys.exit()
            set('d/complete', 'user.own', b'\\0\\1')
            set('d/sub', 'user.protectfs.class', b'unless-open')
            set('d/sub', 'user.more', b'')
            run('mount', 'd', 'point')
            os.chdir('point')
            kind = 'user.protectfs.class'
            print([os.getxattr(name, kind).decode() for name in ['complete', 'sub', 'sub/unless-open', 'none', 'link']])
            print(attempt(lambda: os.getxattr('plain', kind)), attempt(lambda: os.getxattr('.', kind)))
            print(os.listxattr('complete'), os.listxattr('sub'), os.listxattr('plain'), os.listxattr('none'))
            print(len(os.getxattr('plain', 'user.long')), os.getxattr('complete', 'user.own'), os.getxattr('sub', 'user.more'))
            print(attempt(lambda: os.getxattr('complete', 'security.capability')), set('plain', 'user.x', b''))
            print(attempt(lambda: os.getxattr(b'complete', b'user.\\xff')))
            """, isInside: false)
        if done.text == "no attributes here\n" {
            return print("the file system of the temporary directory has no attributes")
        }
        #expect(
            done.text == """
                ['complete', 'unless-open', 'unless-open', 'none', 'complete']
                ENODATA ENODATA
                ['user.own'] ['user.more'] ['user.long'] []
                1000 b'\\x00\\x01' b''
                ENOTSUP EROFS
                ENODATA

                """, "\(done.errors)")
    }

    @Test("Links are shown as they are: relative, absolute, dangling, in circles, and through directories")
    func links() throws {
        let done = try bed.script(
            """
            for target, name in [('sub', 'directory'), (os.getcwd() + '/point/none', 'absolute'), ('circle', 'circle'), ('x' * 4000, 'long'),
                                 ('../d/complete', 'outside'), ('sub/../none', 'dots')]:
                os.symlink(target, 'd/' + name)
            run('mount', 'd', 'point')
            os.chdir('point')
            print(open('directory/unless-open').read(), open('absolute').read(), open('dots').read(), end='')
            print(attempt(lambda: open('circle')), len(os.readlink('long')), attempt(lambda: os.readlink('none')))
            print(open('outside', 'rb').read(8) == open('../d/complete', 'rb').read(8), attempt(lambda: os.readlink('sub')))
            """, isInside: false)
        #expect(done.text == "b\n d\n d\nELOOP 4000 EINVAL\nTrue EINVAL\n", "\(done.errors)")
    }

    @Test("Mounts of protectfs are not shown in each other, and a directory that has one is listed")
    func nested() throws {
        for directory in ["d/place", "other", "inner"] {
            try FileManager.default.createDirectory(
                atPath: sandbox.path(directory), withIntermediateDirectories: true)
        }
        try sandbox.protectedFile("inner/file", Data("inner\n".utf8))
        defer { _ = try? sandbox.shell("fusermount3 -u -z d/place; fusermount3 -u -z point") }
        try bed.mount()
        let before = try sandbox.shell("cat point/place/file || cd point/place")
        #expect(before.status == 0, "\(before.errors)")
        #expect(try sandbox.run("mount", "inner", "d/place").status == 0)
        let done = try bed.script(
            """
            time.sleep(1.1)  # as long as what was seen before counts
            print(sorted(os.listdir()), attempt(lambda: os.listdir('place')), attempt(lambda: os.stat('place')))
            print(attempt(lambda: open('place/file')))
            """)
        #expect(
            done.text == """
                ['complete', 'first-unlock', 'link', 'none', 'place', 'plain', 'sub'] ENOTSUP ENOTSUP
                ENOTSUP

                """, "\(done.errors)")
        let within = try sandbox.run("mount", "d/place", "other")
        #expect(within.status == 64)
        #expect(within.errors.contains("is in a mount of protectfs"), "\(within.errors)")
    }

    @Test(
        "Another file system below is shown; its files are not taken for hard links of others",
        .enabled(if: geteuid() == 0, "only root can mount a tmpfs"))
    func otherFileSystem() throws {
        defer { _ = try? sandbox.shell("fusermount3 -u -z point; umount -l d/a; umount -l d/b") }
        let made = try sandbox.shell(
            """
            mkdir d/a d/b
            for name in a b; do mount -t tmpfs none d/$name && echo $name >d/$name/file && ln d/$name/file d/$name/hard || exit; done
            """)
        guard made.status == 0 else { return print("no tmpfs can be mounted here: \(made.errors)") }
        try bed.mount()
        let done = try bed.script(
            """
            print(os.stat('../d/a/file').st_ino == os.stat('../d/b/file').st_ino, os.stat('a/file').st_ino == os.stat('b/file').st_ino)
            print([open(name + '/file').read() for name in 'ab'], os.stat('a/file').st_ino == os.stat('a/hard').st_ino)
            print(subprocess.run('mkdir ../copy && cp -a a b ../copy && cat ../copy/*/hard', shell=True, text=True, capture_output=True).stdout)
            """)
        #expect(done.text == "True False\n['a\\n', 'b\\n'] True\na\nb\n\n", "\(done.errors)")
    }

    @Test("A directory that is moved below the mount is found where it is, also by those that are in it")
    func moved() throws {
        try bed.mount()
        let done = try bed.script(
            """
            os.makedirs('../d/one/two/three')
            subprocess.run([program, 'write', '--class', 'none', '../d/one/two/three/file'], input=b'text')
            descriptor = os.open('one/two/three', os.O_RDONLY)
            os.rename('../d/one/two', '../d/elsewhere')
            print(open('file', opener=lambda name, flags: os.open(name, flags, dir_fd=descriptor)).read())
            print(open('elsewhere/three/file').read())
            """)
        #expect(done.text == "text\ntext\n", "\(done.errors)")
    }

    @Test("cp, tar and grep read everything; of a locked tree they read what is open, and say what is not")
    func programs() throws {
        try bed.mount()
        let before = try sandbox.shell(
            """
            cd point && mkdir ../tar && tar -cf ../all.tar . && tar -xf ../all.tar -C ../tar && cp -a . ../copy || exit
            for copy in tar copy; do diff -r --no-dereference . ../$copy && echo same; done
            grep -rl plain . && find . -type f -size -3c | wc -l
            """)
        #expect(before.text == "same\nsame\n./plain\n3\n", "\(before.errors)")
        try sandbox.run("lock")
        let after = try sandbox.shell(
            """
            cd point; tar -cf ../some.tar . && echo succeeded; tar -tf ../some.tar | sort; cp -a . ../locked && echo succeeded
            ls ../locked/sub ../locked
            """)
        #expect(
            after.text == """
                ./
                ./first-unlock
                ./link
                ./none
                ./plain
                ./sub/
                ../locked:
                first-unlock
                link
                none
                plain
                sub

                ../locked/sub:

                """, "\(after.errors)")
        #expect(after.errors.components(separatedBy: "Required key not available").count == 5, "\(after.errors)")
    }
}
