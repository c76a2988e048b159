import Foundation
import Testing

@testable import DataProtection

/// Expects a `CocoaError` of that code with the named `DataProtectionError` underneath.
@discardableResult
func expectCocoa(
    _ code: CocoaError.Code, _ name: String, at location: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
) -> CocoaError? {
    let error = #expect(throws: CocoaError.self, sourceLocation: location, performing: body)
    #expect(error?.code == code, sourceLocation: location)
    let underlying = error?.userInfo["NSUnderlyingError"] as? DataProtectionError
    #expect(underlying?.caseName == name, sourceLocation: location)
    #expect(error?.userInfo["NSURL"] as? URL != nil, sourceLocation: location)
    return error
}
