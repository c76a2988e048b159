import Glibc

/// The size of the terminal that standard error leads to.
package struct ScreenSize {
    package let rows, columns: Int

    /// Now: it changes with its window. 24 lines of 80 columns where the terminal does not tell.
    package static var now: ScreenSize {
        var size = winsize()
        guard ioctl(2, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, size.ws_col > 0 else {
            return ScreenSize(rows: 24, columns: 80)
        }
        return ScreenSize(rows: Int(size.ws_row), columns: Int(size.ws_col))
    }
}
