/// A time as HTTP writes it (RFC 9110 §5.6.7), in seconds since 1970.
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Reads all three forms that a recipient must take; nil for anything else.
    ///
    ///     Sun, 06 Nov 1994 08:49:37 GMT     Sunday, 06-Nov-94 08:49:37 GMT     Sun Nov  6 08:49:37 1994
    ///
    /// - Parameter now: a year of two digits that seems to be more than 50 years ahead of it is of the century before.
    static func seconds(_ text: String, now: Int64) -> Int64? {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," }).map(String.init)
        switch words.count {
        case 6 where words[5] == "GMT":
            return seconds(day: words[1], month: words[2], year: words[3], clock: words[4], now)
        case 4 where words[3] == "GMT":
            let date = words[1].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
            guard date.count == 3, date[2].count == 2 else { return nil }
            return seconds(day: date[0], month: date[1], year: date[2], clock: words[2], now)
        case 5:
            return seconds(day: words[2], month: words[1], year: words[4], clock: words[3], now)
        default: return nil
        }
    }

    private static func seconds(
        day: String, month: String, year: String, clock: String, _ now: Int64
    ) -> Int64? {
        let time = clock.split(separator: ":", omittingEmptySubsequences: false).map { number(String($0), digits: 2) }
        guard let day = number(day, digits: day.count), day >= 1, let month = months.firstIndex(of: month),
            var year = number(year, digits: year.count == 2 ? 2 : 4), time.count == 3,
            let hour = time[0], let minute = time[1], let second = time[2], hour < 24, minute < 60, second <= 60
        else { return nil }
        if year < 100 {
            let thisYear = 1970 + Int(now / 31_556_952)
            year += thisYear / 100 * 100
            if year > thisYear + 50 { year -= 100 }
        }
        guard day <= lengths[month] || (month == 1 && day == 29 && isLeap(year)) else { return nil }
        return (days(year, month, day) * 24 + Int64(hour)) * 3600 + Int64(minute * 60 + second)
    }

    private static let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

    private static func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    /// Days since 1970-01-01.
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
        let before = year - 1
        let years = 365 * before + before / 4 - before / 100 + before / 400 - 719_162
        let leapDay = month > 1 && isLeap(year) ? 1 : 0
        return Int64(years + lengths[..<month].reduce(0, +) + leapDay + day - 1)
    }

    private static func number(_ text: String, digits: Int) -> Int? {
        guard text.utf8.count == digits, digits <= 4, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        return Int(text)
    }
}
