import ProtectionSecrets
import Testing

@testable import protectfs_secrets

@Suite("Questions of ssh, git and sudo")
struct AskpassQuestionTests {
    @Test(arguments: [
        (
            "Password for 'https://kim@example.org': ",
            AskpassQuestion.secret(.internetPassword(SecretServer("https", host: "example.org"), account: "kim"))
        ),
        (
            "Password for 'https://k%40m@Example.org:8443/a/b.git': ",
            .secret(
                .internetPassword(
                    SecretServer("https", host: "example.org", port: 8443, path: "a/b.git"), account: "k@m"))
        ),
        ("Username for 'https://example.org': ", .account(SecretServer("https", host: "example.org"))),
        (
            "Enter passphrase for key '/home/kim/it's mine': ",
            .secret(.genericPassword(service: "ssh-key", account: "/home/kim/it's mine"))
        ),
        (
            "kim@example.org's password: ",
            .secret(.internetPassword(SecretServer("ssh", host: "example.org"), account: "kim"))
        ),
        (
            "Enter passphrase for /home/kim/a key: ",
            .secret(.genericPassword(service: "ssh-key", account: "/home/kim/a key"))
        ),
        (
            "Enter passphrase for /home/kim/key (will confirm each use): ",
            .secret(.genericPassword(service: "ssh-key", account: "/home/kim/key"))
        ),
        (
            "kim@corp@example.org's password: ",
            .secret(.internetPassword(SecretServer("ssh", host: "example.org"), account: "kim@corp"))
        ),
        ("[sudo] password for kim: ", .secret(.genericPassword(service: "sudo", account: "kim"))),
    ])
    func read(_ question: String, _ expected: AskpassQuestion) { #expect(AskpassQuestion(question) == expected) }

    @Test(arguments: [
        "", "Password: ", "Password for '", "Password for '': ", "Username for 'x': ", "@'s password:",
        "Password for '://a': ", "Username for '://example.org': ",
        "kim@'s password:",
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "Enter passphrase for key ",
        "(kim@evil.example) kim@example.org's password: ",
        "(kim@evil.example) Password for 'https://kim@example.org': ",
        "(kim@evil.example) Enter passphrase for key '/home/kim/.ssh/id': ",
    ])
    func others(_ question: String) { #expect(AskpassQuestion(question) == nil) }

    /// Who chooses a URL or a user's name, as a submodule does, or asks through ssh, must not get what is another server's.
    @Test(arguments: [
        "Password for 'https://github.com?@evil.example': ", "Password for 'https://kim@github.com?@evil.example': ",
        "Password for 'https://kim@github.com#@evil.example': ",
        "Password for 'https://kim@github.com/@evil.example': ",
        "Password for 'https://github.com/a@evil.example': ", "Password for 'https://github.com?evil.example': ",
        "Password for 'https://kim@github.com\\@evil.example': ", "Username for 'https://github.com#@evil.example': ",
        "Password for 'https://kim@github.com' x 'https://evil.example': ",
        "Password for 'https://kim@github.com\n@evil.example': ", "Password for 'https://kim@github.com': evil's: ",
        "kim@bank.example's password:x@evil.example's password: ", "kim@bank.example's password: of evil.example: ",
        "(kim@evil.example) kim@bank.example's password: ",
        "(kim@evil.example) Password for 'https://kim@github.com': ",
        "(kim@evil.example) Enter passphrase for key '/home/kim/.ssh/id': ",
        "(@evil.example) [sudo] password for kim: ",
        "Bad passphrase, try again for /home/kim/.ssh/id: ", "[sudo] password for kim: or else: ",
    ])
    func spoofed(_ question: String) { #expect(AskpassQuestion(question) == nil) }
}
