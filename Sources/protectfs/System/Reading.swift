/// A fact, or why it cannot be known.
enum Reading<Value> {
    case known(Value)
    case unknown(String)
}

extension Reading: Equatable where Value: Equatable {}
extension Reading: Sendable where Value: Sendable {}

extension Reading {
    func map<Other>(_ body: (Value) -> Other) -> Reading<Other> { flatMap { .known(body($0)) } }

    func flatMap<Other>(_ body: (Value) -> Reading<Other>) -> Reading<Other> {
        switch self {
        case .known(let value): body(value)
        case .unknown(let reason): .unknown(reason)
        }
    }
}
