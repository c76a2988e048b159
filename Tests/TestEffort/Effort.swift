import Glibc

/// How much the repetitive tests do, and the seed from which they choose.
///
/// Two environment variables, which `./test` prints, repeat a run:
///
/// - `PROTECTFS_EFFORT`, 1 to 100: 1 is what every run does; 100, in `.ci/long`, is everything.
/// - `PROTECTFS_SEED`: any number below 2^32. Without it the seed is the day, so that the samples of seven days in a row are different
///   ones: together they cover a ``slice(of:)`` whole.
public enum Effort {
    /// 1 to 100.
    public static let level = min(max(variable("PROTECTFS_EFFORT") ?? 1, 1), 100)

    /// Decides which sample is taken, and every random choice.
    public static let seed = UInt64(variable("PROTECTFS_SEED") ?? time(nil) / 86_400) & 0xFFFF_FFFF

    /// Whether a sanitizer watches this process: it keeps memory that was given back, and maps terabytes of its own.
    public static let isSanitized = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil

    /// How many of something repeated to do: `few` at level 1, `many` at level 100, and in between in proportion.
    public static func count(_ few: Int, _ many: Int, level: Int = level) -> Int {
        few + (many - few) * (level - 1) / 99
    }

    /// Which of `items` to try: at level 1 every seventh, beginning at another one each day; from level 7 on all of them.
    public static func slice<Element>(of items: some Sequence<Element>) -> [Element] {
        items.enumerated().filter { includes($0.offset) }.map(\.element)
    }

    /// Whether item number `index` of many is in ``slice(of:)``.
    public static func includes(_ index: Int, seed: UInt64 = seed, level: Int = level) -> Bool {
        (index + Int(seed)) % max(1, (6 + level) / level) == 0
    }

    /// Which of at most seven `items` to try: at level 1 one of them, the next one each day; from level 7 on all of them.
    public static func turn<Element>(of items: [Element], seed: UInt64 = seed, level: Int = level) -> [Element] {
        level >= 7 || items.isEmpty ? items : [items[Int(seed % UInt64(items.count))]]
    }

    /// Numbers for one test: always the same for a seed. Prints the line that repeats them.
    ///
    /// - Parameters:
    ///   - test: its name, for the line.
    ///   - salt: tells tests apart that would choose the same.
    public static func generator(_ test: String, _ salt: UInt64 = 0) -> SeededGenerator {
        print("\(test): PROTECTFS_SEED=\(seed)")
        return SeededGenerator(seed: seed &* 0x9E37_79B9 &+ salt)
    }

    private static func variable(_ name: String) -> Int? { getenv(name).flatMap { Int(String(cString: $0)) } }
}
