//! `tidegate remote`: what is remembered of endpoints, and what is shown of it.

use std::process::Command;

use crate::common::{Ran, World, finish};
use testkit::skip;

/// Runs the command at a terminal, where `$TYPED` is typed once it asks, and tells in its last line whether the
/// terminal shows what is typed again. The terminal's output is the output.
const AT_TERMINAL: &str = r#"
import os, pty, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
def more():
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
while b"Enter" not in shown:
    data = more()
    if not data:
        break
    shown += data
os.write(terminal, os.environ["TYPED"].encode())
while data := more():
    shown += data
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(shown)
print("echo" if termios.tcgetattr(terminal)[3] & termios.ECHO else "silence")
sys.exit(os.waitstatus_to_exitcode(status))
"#;

fn at_terminal(world: &World, typed: &str, arguments: &[&str]) -> Ran {
    let ours = world.command();
    let mut command = Command::new("python3");
    command.args(["-c", AT_TERMINAL]).arg(ours.get_program()).args(arguments).env("TYPED", typed);
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    finish(&mut command)
}

/// The part of an address that is a secret.
fn secret(address: &str) -> &str {
    address.trim_start_matches("tg://").split('@').next().expect("a ticket")
}

#[test]
fn a_ticket_that_is_typed_is_not_shown() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("a_ticket_that_is_typed_is_not_shown", "python3 is not installed");
    }
    let world = World::new();
    let endpoint = world.endpoint("a", &[]);
    let ran = at_terminal(&world, &format!("{}\n", endpoint.address), &["remote", "add", "dtn"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains(&secret(&endpoint.address)[..16]), "{ran:?}");
    assert!(ran.out.contains(&format!("dtn: tg://{}/", endpoint.place())), "{ran:?}");
    assert!(ran.out.ends_with("echo\n"), "{ran:?}");
    assert!(world.ok(&["remote", "list"]).starts_with("dtn  "));
    // Interrupted, the terminal is as it was.
    let ran = at_terminal(&world, "\x03", &["remote", "add", "other"]);
    assert!(ran.code == 130 && ran.out.ends_with("echo\n"), "{ran:?}");
    assert!(!world.ok(&["remote", "list"]).contains("other"));
}

#[test]
fn what_is_remembered_is_said_and_replaced_only_when_asked() {
    let world = World::new();
    let (a, b) = (world.endpoint("a", &[]), world.endpoint("b", &[]));
    let line = |address: &str, place: &str| {
        let bytes = data_encoding::BASE64URL_NOPAD.decode(secret(address).as_bytes()).expect("base64url");
        format!("dtn: tg://{place}/, certificate SHA-256 {}\n", data_encoding::HEXLOWER.encode(&bytes[..32]))
    };
    assert_eq!(world.ok(&["remote", "add", "dtn", &a.address]), line(&a.address, &a.place()));
    for arguments in [&["remote", "add", "dtn", &b.address][..], &["remote", "add", "dtn"]] {
        let ran = world.run(arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
        assert!(ran.err.contains(&a.place()) && ran.err.contains("--replace"), "{ran:?}");
        assert!(!ran.err.contains(secret(&a.address)), "{ran:?}");
    }
    assert!(world.ok(&["remote", "list"]).contains(&a.place()));
    // The same again is no replacement.
    world.ok(&["remote", "add", "dtn", &a.address]);
    let said = world.ok(&["remote", "add", "dtn", &b.address, "--replace"]);
    assert_eq!(said, line(&b.address, &b.place()));
    assert!(world.ok(&["remote", "list"]).contains(&b.place()));
}
