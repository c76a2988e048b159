/// A verb that this program does.
protocol PerformedSecretVerb: SecretVerb {
    func perform() throws
}
