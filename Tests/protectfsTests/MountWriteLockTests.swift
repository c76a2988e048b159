import Foundation
import TestEffort
import Testing

/// Locks, deaths and programs on a mount that they may write to.
@Suite("mount --read-write: locks and programs", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountWriteLockTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }

    init() throws {
        bed = try MountBed()
        try bed.mount("--read-write")
    }

    @Test("While locked, writing goes as far as the class allows, and the same descriptors go on after the unlock")
    func locked() throws {
        let done = try bed.script(
            """
            for name in ['complete', 'unless-open', 'first-unlock']:
                os.mkdir('to-' + name)
                run('class', '../d/to-' + name, name)
            names = ['complete', 'sub/unless-open', 'first-unlock']
            descriptors = {name: os.open(name, os.O_RDWR) for name in names}
            for descriptor in descriptors.values(): os.pwrite(descriptor, b'before', 0)
            run('lock', '--require-clean')
            for name, descriptor in descriptors.items():
                print(name, attempt(lambda: os.pwrite(descriptor, b'LOCKED', 0)), attempt(lambda: os.pread(descriptor, 6, 0)),
                      attempt(lambda: os.ftruncate(descriptor, 6)), attempt(lambda: os.fsync(descriptor)))
                print(attempt(lambda: os.close(os.open(name, os.O_WRONLY))), attempt(lambda: os.truncate(name, 3)), attempt(lambda: os.open(name, os.O_RDONLY | os.O_TRUNC) > 0))
            for name in ['complete', 'unless-open', 'first-unlock']:
                try:
                    with open('to-' + name + '/new', 'w+') as file:
                        file.write('made while locked'); file.flush()
                        print(name, os.pread(file.fileno(), 4, 0), end=' ')
                    print(attempt(lambda: open('to-' + name + '/new').read()))
                except OSError as error: print(name, errno.errorcode[error.errno])
            os.chmod('complete', 0o600); os.utime('complete', (1, 2)); os.rename('complete', 'renamed'); os.link('renamed', 'complete')
            os.unlink('renamed'); os.mkdir('directory'); os.symlink('complete', 'another')
            print(os.stat('complete').st_size, os.stat('complete').st_mtime)
            unlock()
            descriptor = descriptors['complete']
            print(os.pread(descriptor, 6, 0), os.pwrite(descriptor, b'after ', 0), os.pread(descriptor, 6, 0))
            os.close(descriptor)
            print(open('complete', 'rb').read(6), open('to-unless-open/new').read(), sorted(os.listdir('to-complete')))
            """)
        #expect(
            done.text == """
                complete ENOKEY ENOKEY ENOKEY None
                ENOKEY ENOKEY ENOKEY
                sub/unless-open 6 b'LOCKED' None None
                ENOKEY ENOKEY ENOKEY
                first-unlock 6 b'LOCKED' None None
                None None True
                complete ENOKEY
                unless-open b'made' ENOKEY
                first-unlock b'made' made while locked
                100000 2.0
                b'before' 6 b'after '
                b'after ' made while locked []

                """, "\(done.errors)")
    }

    @Test("Acknowledged writes to a complete file are committed by the lock, even if the server is killed then")
    func committedByLock() throws {
        let done = try bed.script(
            """
            descriptor = os.open('complete', os.O_RDWR)
            os.pwrite(descriptor, b'acknowledged', 50000)
            run('lock', '--require-clean')
            # From a dead mount no path leads anywhere once the kernel has forgotten it.
            os.chdir('..')
            kill(server())
            unlock()
            print(subprocess.run([program, 'cat', 'd/complete'], capture_output=True).stdout[50000:50012])
            """)
        #expect(done.text == "b'acknowledged'\n", "\(done.errors)")
    }

    @Test("After fsync, and after close, kill -9 of the server loses nothing")
    func killed() throws {
        let done = try bed.script(
            """
            os.chdir('..')
            for number in range(int(sys.argv[1])):
                with open('point/closed', 'w') as file: file.write('closed %d' % number * 999)
                os.rename('point/closed', 'point/replaced')
                descriptor = os.open('point/synced', os.O_RDWR | os.O_CREAT)
                os.pwrite(descriptor, b'synced %d' % number, 9000 * number)
                os.fsync(descriptor)
                os.pwrite(descriptor, b'not synced', 0)
                # The notes of dead servers stay until a lock.
                kill(next(process for process in (int(name.split('.')[0]) for name in os.listdir(notes)) if not gone(process)))
                for call in (lambda: os.pwrite(descriptor, b'x', 0), lambda: os.close(descriptor)):
                    print(attempt(call) in ('ENOTCONN', 'ECONNABORTED'))
                run('unmount', 'point')
                assert verb('cat', 'd/replaced').stdout == 'closed %d' % number * 999
                synced = subprocess.run([program, 'cat', 'd/synced'], capture_output=True).stdout
                assert synced[9000 * number:].decode() == 'synced %d' % number, synced[-20:]
                run('verify', 'd/replaced')
                run('mount', '--read-write', 'd', 'point')
            """, "\(Effort.count(3, 100))")
        #expect(done.status == 0, "\(done.errors)")
        #expect(Set(done.text.split(separator: "\n")) == ["True"], "\(done.errors)")
    }

    @Test("Writes that nobody synchronises are committed a little later, while the file stays open")
    func rounds() throws {
        let done = try bed.script(
            """
            descriptor = os.open('new', os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, b'committed by itself')
            print(waited(lambda: verb('cat', '../d/new').stdout == 'committed by itself'))
            os.chdir('..')
            kill(server())
            print(verb('cat', 'd/new').stdout)
            """)
        #expect(done.text == "True\ncommitted by itself\n", "\(done.errors)")
    }

    @Test("With locks beside writers, each write is acknowledged and there or ENOKEY, and each lock is clean")
    func storm() throws {
        let done = try bed.script(
            """
            descriptor = os.open('complete', os.O_RDWR)
            os.ftruncate(descriptor, 0)
            acknowledged, wrong, done, counts = [], [], threading.Event(), {'written': 0, 'ENOKEY': 0}
            def writes():
                number = 0
                while not done.is_set():
                    try:
                        os.write(descriptor, b'%08d' % number)
                        acknowledged.append(number)
                        number += 1
                        counts['written'] += 1
                        if number % 50 == 0: os.fsync(descriptor)
                    except OSError as error:
                        if error.errno != errno.ENOKEY: wrong.append(error)
                        counts['ENOKEY'] += 1
            thread = threading.Thread(target=writes)
            thread.start()
            statuses = []
            for _ in range(int(sys.argv[1])):
                statuses.append(verb('lock', '--require-clean').returncode)
                time.sleep(0.05)
                unlock()
                time.sleep(0.05)
            done.set()
            thread.join()
            os.close(descriptor)
            data = open('complete', 'rb').read()
            print([data[place:place + 8] for place in range(0, len(data), 8)] == [b'%08d' % number for number in acknowledged],
                  wrong, set(statuses), min(counts.values()) > 0)
            """, "\(Effort.count(5, 100))")
        #expect(done.text == "True [] {0} True\n", "\(done.errors)")
    }

    @Test("cp, mv, echo, sed and tar work, with a lock and an unlock in between")
    func shell() throws {
        let done = try bed.script(
            """
            def sh(text):
                done = subprocess.run(['sh', '-e', '-c', text], capture_output=True, text=True)
                print(done.returncode, done.stdout.strip(), done.stderr.strip())
            sh('mkdir w && cd w && cp -a ../complete copy && cmp copy ../complete && echo one > notes && echo two >> notes && cat notes')
            sh('cd w && sed -i s/one/1/ notes && mv notes moved && cat moved && cp moved again && rm moved && ls')
            run('lock', '--require-clean')
            sh('cd w && echo three >> again && cat again && sed -i s/two/2/ again && cat again')
            unlock()
            sh('tar -C w -cf all.tar . && mkdir x && tar -C x -xf all.tar && diff -r w x && rm -r w x all.tar && ls')
            """)
        #expect(
            done.text == """
                0 one
                two\u{20}
                0 1
                two
                again
                copy\u{20}
                0 1
                two
                three
                1
                2
                three\u{20}
                0 complete
                first-unlock
                link
                none
                plain
                sub\u{20}

                """, "\(done.errors)")
    }

    @Test(
        "git init, commit, gc and fsck work, with a lock and an unlock in between",
        .enabled(if: access("/usr/bin/git", X_OK) == 0, "git is not installed"))
    func git() throws {
        let done = try sandbox.shell(
            """
            set -e; cd point; export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
            git init -q -b main r; cd r
            for number in $(seq 10); do echo $number >>file; mkdir -p d$number; cp file d$number; git add .; git commit -q -m $number; done
            "$PROTECTFS" lock --require-clean 2>/dev/null
            echo locked >>file; git commit -q -a -m locked
            printf %s "$0" | "$PROTECTFS" unlock --passcode-fd 0
            git gc -q; git fsck --full --strict; git clone -q . ../clone; cd ../clone; git log --format=%s | head -2; git status --short; tail -1 file
            """, [CommandSandbox.passcode])
        #expect(done.text == "locked\n10\nlocked\n", "\(done.errors)")
    }

    @Test("SQLite in rollback mode works through locks, and its database is whole")
    func sqlite() throws {
        let done = try bed.script(
            """
            try: import sqlite3
            except ImportError: print('no sqlite3'); sys.exit()
            run('class', '../d/sub', 'complete')
            database = sqlite3.connect('sub/db')
            database.execute('pragma journal_mode=delete')
            database.execute('create table t (n integer primary key, text)')
            kept = 0
            for turn in range(3):
                for number in range(20):
                    with database: database.execute('insert into t (text) values (?)', ('x' * 500,))
                    kept += 1
                run('lock', '--require-clean')
                try:
                    with database: database.execute('insert into t (text) values (1)')
                    print('written while locked')
                except sqlite3.Error: pass
                unlock()
                print(database.execute('select count(*) from t').fetchone()[0] == kept, database.execute('pragma integrity_check').fetchone())
            database.close()
            print(sqlite3.connect('sub/db').execute('select count(*) from t').fetchone()[0])
            """)
        if done.text == "no sqlite3\n" { return print("Python has no sqlite3 here") }
        #expect(done.text == String(repeating: "True ('ok',)\n", count: 3) + "60\n", "\(done.errors)")
    }
}
