import Foundation
import TestEffort
import Testing

/// What a lock says of a mount that nobody serves.
@Suite("mount: a server that died", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountDeathTests {
    private let bed: MountBed
    init() throws { bed = try MountBed() }

    @Test("When each server dies at once, the last guardian drops the pages, and a lock has nothing to say")
    func guarded() throws {
        try bed.mount()
        let done = try bed.script(
            """
            descriptor, dead = os.open('point/complete', os.O_RDONLY), server()
            print(os.pread(descriptor, 2, 0))
            mapping = mapped('point/complete')
            print(resident(mapping) > 0)
            endAll()
            print(waited(lambda: os.listdir(notes) == []), waited(lambda: attempt(lambda: os.stat('point/none')) == 'ENOTCONN'))
            print(resident(mapping), attempt(lambda: os.pread(descriptor, 2, 0)))
            ended = ['ENOTCONN', 'ECONNABORTED']  # the second while the kernel still ends the connection
            print(attempt(lambda: os.listdir('point')) in ended, attempt(lambda: open('point/none')) in ended)
            run('lock', '--require-clean')
            mapping.close()
            os.close(descriptor)
            run('unmount', 'point')
            run('mount', 'd', 'point')
            print(open('point/none').read())
            """, isInside: false)
        #expect(
            done.text == """
                b'\\x00\\x07'
                True
                True True
                0 ENOTCONN
                True True
                d


                """, "\(done.errors)")
    }

    @Test("The pages go while programs read and write, whatever the killed server had begun")
    func guardedUnderLoad() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            for round in range(int(sys.argv[1])):
                mapping = mapped('point/complete')
                done = threading.Event()
                def works(number):
                    while not done.is_set():
                        try:
                            with open('point/new%d' % number, 'w') as file: file.write('x' * 9000)
                            with open('point/complete', 'rb') as file: file.read()
                            os.listdir('point')
                        except OSError: pass
                workers = [threading.Thread(target=works, args=[number], daemon=True) for number in range(6)]
                for worker in workers: worker.start()
                time.sleep(0.3)
                endAll()
                print(waited(lambda: os.listdir(notes) == []), resident(mapping))
                run('lock', '--require-clean')
                done.set()
                for worker in workers: worker.join()
                mapping.close()
                run('unmount', 'point')
                unlock()
                run('mount', '--read-write', 'd', 'point')
            """, "\(Effort.count(2, 50))", isInside: false)
        #expect(done.status == 0, "\(done.errors)")
        #expect(Set(done.text.split(separator: "\n")) == ["True 0"], "\(done.text)")
    }

    @Test("A guardian that starts after its server has died notices, even if a thread of it is left")
    func lateGuardian() throws {
        // Of this program the first thread ends, as of a killed server, and the other one stays.
        let script = """
            import ctypes, fcntl, os, sys, threading, time
            reader, writer = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in os.pipe())
            server = os.getpid()
            guardian = os.fork()
            if guardian == 0:
                while ') Z' not in open('/proc/%d/stat' % server).read(): time.sleep(0.05)
                os.dup2(reader, 3)
                for number in range(4, 8): os.dup2(os.open('/dev/null', os.O_RDWR), number)
                places = ['/nowhere/%s' % name for name in 'nkdp']
                os.execv(sys.argv[1], ['protectfs-mount', '--guard', str(server)] + places)
            def watch():
                for _ in range(200):
                    if os.waitpid(guardian, os.WNOHANG)[0]: os.write(1, b'ended'); os._exit(0)
                    time.sleep(0.05)
                os.kill(guardian, 9); os.write(1, b'waits'); os._exit(0)
            threading.Thread(target=watch).start()
            ctypes.CDLL(None).pthread_exit(None)
            """
        let done = try bed.sandbox.shell(
            "exec python3 -c \"$0\" \"$(dirname \"$PROTECTFS\")/protectfs-mount\"", [script])
        #expect(done.text == "ended", "\(done.errors)")
    }

    @Test("A guardian leaves when its server ends in order, and does nothing")
    func guardianLeaves() throws {
        try bed.mount()
        let done = try bed.script(
            """
            process, keeper = server(), guardian(server())
            run('unmount', 'point')
            print(keeper is not None, waited(lambda: gone(process)), waited(lambda: gone(keeper)), os.listdir(notes))
            """, isInside: false)
        #expect(done.text == "True True True []\n", "\(done.errors)")
    }

    @Test("The note of a dead server does not count for a new mount with the same numbers")
    func numbersAgain() throws {
        try bed.mount()
        let done = try bed.script(
            """
            kill(server())
            print(len(os.listdir(notes)))
            assert subprocess.run(['fusermount3', '-u', 'point']).returncode == 0
            # The kernel gives the next mount the numbers of this one.
            run('mount', 'd', 'point')
            print(len(os.listdir(notes)))
            run('lock', '--require-clean')
            """, isInside: false)
        #expect(done.text == "1\n1\n", "\(done.errors)")
        #expect(done.status == 0, "\(done.errors)")
    }

    @Test("Server and guardian killed: the mount point says it, a lock names who can read what, and unmount cleans up")
    func killed() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping, dead = mapped('point/complete'), server()
            kill(dead)
            waited(lambda: attempt(lambda: os.listdir('point')) == 'ENOTCONN')  # what is under way is aborted
            print(attempt(lambda: os.listdir('point')), attempt(lambda: open('point/none')), verb('mount', 'd', 'point').returncode)
            run('lock')
            # The reason for all that follows.
            print(mapping[1], resident(mapping) > 0)
            lock = verb('lock', '--require-clean')
            print(lock.returncode, 'was killed' in lock.stderr, '(process %d)' % dead in lock.stderr)
            print('(process %d) can still read' % os.getpid() in lock.stderr, "/point/complete'" in lock.stderr)
            mounts = json.loads(verb('lock', '--json').stdout)['keybags'][0]
            print(mounts['clean'], [(mount['server'] == dead, mount['served'], [program['pid'] == os.getpid()
                for program in mount['programs']]) for mount in mounts['mounts']])
            busy = verb('unmount', 'point')
            print(busy.returncode, '(process %d)' % os.getpid() in busy.stderr)
            mapping.close()
            print(verb('lock', '--require-clean').returncode)
            run('unmount', 'point')
            run('lock', '--require-clean')
            print(os.listdir('point'), os.listdir(notes))
            run('mount', 'd', 'point')
            print(open('point/none').read())
            """, isInside: false)
        #expect(
            done.text == """
                ENOTCONN ENOTCONN 73
                7 True
                75 True True
                True True
                False [(True, False, [True])]
                75 True
                75
                [] []
                d


                """, "\(done.errors)")
    }

    @Test("With a mount whose server died its note goes when it is unmounted, not at the next lock")
    func note() throws {
        try bed.mount()
        let done = try bed.script(
            """
            kill(server())
            run('unmount', 'point')
            print(os.listdir(notes))
            """, isInside: false)
        #expect(done.text == "[]\n", "\(done.errors)")
    }

    @Test(
        "When fusermount3 fails, unmount says why",
        arguments: [
            ("failed to unmount point: Operation not permitted", 77, "Operation not permitted"),
            ("entry for point not found in /etc/mtab", 71, "not found in /etc/mtab"),
            ("failed to unmount point: Device or resource busy", 75, "is in use"),
            ("", 71, "fusermount3 ended with status 1"),
        ] as [(String, Int32, String)])
    func reason(said: String, status: Int32, reason: String) throws {
        try bed.mount()
        try bed.sandbox.put("#!/bin/sh\necho 'fusermount3: \(said)' >&2\nexit 1\n", at: "bin/fusermount3")
        if said.isEmpty { try bed.sandbox.put("#!/bin/sh\nexit 1\n", at: "bin/fusermount3") }
        let done = try bed.sandbox.shell(
            "chmod +x bin/fusermount3; PATH=\"$PWD/bin:$PATH\" exec \"$PROTECTFS\" unmount point")
        #expect(done.status == status, "\(done.errors)")
        #expect(done.errors.contains(reason), "\(done.errors)")
        #expect(done.errors.contains("in use") == (status == 75), "\(done.errors)")
        #expect(try bed.sandbox.run("unmount", "point").status == 0)
    }

    @Test("Unmounted lazily, a dead server's file is known as long as a program has it mapped")
    func lazily() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping = mapped('point/complete')
            kill(server())
            subprocess.run(['fusermount3', '-u', '-z', 'point'], check=True)
            lock = verb('lock', '--require-clean')
            print(lock.returncode, '(process %d) can still read' % os.getpid() in lock.stderr)
            mapping.close()
            run('lock', '--require-clean')
            print(os.listdir(notes))
            """, isInside: false)
        #expect(done.text == "75 True\n[]\n", "\(done.errors)")
    }

    @Test("A stopped server is named with the files that programs have open there")
    func stopped() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping, descriptor = mapped('point/complete'), os.open('point/first-unlock', os.O_RDONLY)
            stop(server())
            lock = verb('lock', '--require-clean')
            os.kill(server(), signal.SIGCONT)
            print(lock.returncode, '(process %d) did not respond' % server() in lock.stderr)
            print("/point/complete'" in lock.stderr, "/point/first-unlock'" in lock.stderr)
            run('lock', '--require-clean')
            print(resident(mapping))
            """, isInside: false)
        #expect(done.text == "75 True\nTrue True\n0\n", "\(done.errors)")
    }

    @Test("After SIGTERM open files are served, and locked, until the last of them is closed")
    func terminated() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping, descriptor, process = mapped('point/complete'), os.open('point/complete', os.O_RDONLY), server()
            os.kill(process, signal.SIGTERM)
            print(waited(lambda: os.listdir('point') == []), attempt(lambda: open('point/saved', 'w')) if os.getuid() else 'EACCES')
            print(os.pread(descriptor, 2, 0))
            run('lock', '--require-clean')
            print(resident(mapping), attempt(lambda: os.pread(descriptor, 2, 0)))
            mapping.close()
            os.close(descriptor)
            print(waited(lambda: gone(process)), os.listdir(notes))
            """, isInside: false)
        #expect(
            done.text == """
                True EACCES
                b'\\x00\\x07'
                0 ENOKEY
                True []

                """, "\(done.errors)")
    }

    @Test(
        "A connection that root has cut is known, although the server ended in order",
        .enabled(if: geteuid() == 0, "only root can cut it with umount -f"))
    func cut() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping, process = mapped('point/complete'), server()
            subprocess.run(['umount', '-f', 'point'], stderr=subprocess.DEVNULL)
            print(waited(lambda: gone(process)))
            lock = verb('lock', '--require-clean')
            print(lock.returncode, '(process %d) can still read' % os.getpid() in lock.stderr)
            mapping.close()
            verb('unmount', 'point')
            run('lock', '--require-clean')
            """, isInside: false)
        #expect(done.text == "True\n75 True\n", "\(done.errors)")
    }

    @Test("Nobody but the server's end sets a guardian to work")
    func signalledGuardian() throws {
        try bed.mount()
        let done = try bed.script(
            """
            descriptor, dead = os.open('point/complete', os.O_RDONLY), server()
            mapping, keeper = mapped('point/complete'), guardian(dead)
            for _ in range(100): os.kill(keeper, signal.SIGUSR1)
            time.sleep(0.2)
            print([attempt(lambda: open('point/none').close()) for _ in range(100)] == [None] * 100)
            print(len(bytes(mapping)), resident(mapping) > 0, os.listdir(notes) != [])
            end(dead)
            successor(dead)
            print(keeper == server(), resident(mapping), attempt(lambda: os.pread(descriptor, 2, 0)))
            run('lock', '--require-clean')
            mapping.close(); os.close(descriptor)
            run('unmount', 'point')
            """, isInside: false)
        #expect(done.text == "True\n100000 True True\nTrue 0 b'\\x00\\x07'\n", "\(done.errors)")
    }

    @Test("A server whose record was removed has not answered")
    func removedRecord() throws {
        try bed.mount()
        let done = try bed.script(
            """
            mapping, process = mapped('point/complete'), server()
            stop(process)
            clients = os.environ['PROTECTFS_KEYBAG'] + '/run/clients'
            for name in os.listdir(clients): os.unlink(os.path.join(clients, name))
            lock = verb('lock', '--require-clean')
            print(lock.returncode, '(process %d)' % process in lock.stderr)
            os.kill(process, signal.SIGCONT)
            mapping.close()
            """, isInside: false)
        #expect(done.text == "75 True\n", "\(done.errors)")
    }

    @Test("Somebody removes `run` while the server lives: it hears of the next lock all the same, and is known to it")
    func removedRun() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            run_directory, process = os.environ['PROTECTFS_KEYBAG'] + '/run', server()
            reader, mapping = os.open('point/complete', os.O_RDONLY), mapped('point/complete')
            run('lock', '--require-clean')
            kept = os.open(os.path.join(run_directory, 'state'), os.O_RDONLY)
            subprocess.run(['rm', '-rf', run_directory])
            time.sleep(1)
            print(sorted(os.listdir(run_directory + '/mounts')) == ['%d.1' % process])
            unlock()
            print(os.pread(reader, 2, 0), mapping[1])
            run('lock', '--require-clean')
            print(resident(mapping), attempt(lambda: os.pread(reader, 2, 0)))
            unlock()
            print(os.pread(reader, 2, 0))
            mapping.close(); os.close(reader); os.close(kept)
            """, isInside: false)
        #expect(
            done.text == """
                True
                b'\\x00\\x07' 7
                0 ENOKEY
                b'\\x00\\x07'

                """, "\(done.errors)")
    }

    @Test("A path in a mount whose server is stopped is status 75, and nothing waits for ever")
    func stoppedServer() throws {
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            process = server()
            keeper = guardian(process)
            for one in (process, keeper): stop(one)
            verbs = [['cat', 'point/none'], ['class', 'point/nosuch'], ['write', 'point/new']]
            print([subprocess.run([program] + words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode for words in verbs])
            for one in (keeper, process): os.kill(one, signal.SIGCONT)
            """, isInside: false)
        #expect(done.text == "[75, 75, 75]\n", "\(done.errors)")
    }

    @Test("A walk that comes to a mount whose server is stopped is status 75, and nothing waits for ever")
    func stoppedBelow() throws {
        try bed.mountInPlace("--read-write")
        let done = try bed.script(
            """
            time.sleep(1.2)
            process = server()
            keeper = guardian(process)
            for one in (process, keeper): stop(one)
            passcode = ['--passcode-fd', '9']
            os.lseek(9, 0, os.SEEK_SET)
            verbs = [['verify', '--recursive', '.'], ['rotate', '--root', '.'] + passcode, ['ls', '-R', '.']]
            print([subprocess.run([program] + words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, pass_fds=[9]).returncode
                   for words in verbs])
            for one in (keeper, process): os.kill(one, signal.SIGCONT)
            """, isInside: false)
        #expect(done.text == "[75, 75, 75]\n", "\(done.errors)")
    }

    @Test("A lock knows of a stopped server although somebody has removed `run`; nothing is left of an erased keybag")
    func markedServer() throws {
        try bed.mount()
        let done = try bed.script(
            """
            run_directory, process = os.environ['PROTECTFS_KEYBAG'] + '/run', server()
            keeper, mapping = guardian(process), mapped('point/complete')
            for one in (process, keeper): stop(one)
            os.rename(run_directory, run_directory + '-gone')
            print(verb('lock', '--require-clean').returncode, resident(mapping) > 0)
            for one in (keeper, process): os.kill(one, signal.SIGCONT)
            print(waited(lambda: resident(mapping) == 0))
            mapping.close()
            subprocess.run(['rm', '-rf', run_directory + '-gone'])
            run('erase', '--yes')
            time.sleep(1)
            print(os.path.lexists(run_directory))
            """, isInside: false)
        #expect(done.text == "75 True\nTrue\nFalse\n", "\(done.errors)")
    }
}
