//! Signals that ask a command to end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tidegate_transfer::transfer::Interrupt;

use crate::exit::INTERRUPTED;
use crate::terminal;

/// Who waits for a server that says nothing cannot be called off: after so long the program ends without it.
const GRACE: Duration = Duration::from_secs(5);

/// Whether it does.
static ENDS_ANYWAY: AtomicBool = AtomicBool::new(false);

/// From now on an interrupted program ends within seconds, whatever it waits for.
pub fn end_anyway() {
    ENDS_ANYWAY.store(true, Relaxed);
}

/// Ctrl-C, SIGTERM and a closed terminal stop the transfer and keep what is needed to resume; a second
/// one ends at once.
pub fn interrupt_on_signals() -> Interrupt {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupt = Interrupt::default();
    // `nohup` asks us not to mind.
    let wanted =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(signal));
    if let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) {
        let raised = interrupt.clone();
        thread::spawn(move || {
            for _ in signals.forever() {
                if raised.is_raised() {
                    terminal::clear();
                    std::process::exit(i32::from(INTERRUPTED));
                }
                raised.raise();
                if ENDS_ANYWAY.load(Relaxed) {
                    thread::spawn(|| {
                        thread::sleep(GRACE);
                        terminal::clear();
                        eprintln!(
                            "tidegate: interrupted while a server did not answer; run the same command again to continue"
                        );
                        std::process::exit(i32::from(INTERRUPTED));
                    });
                }
            }
        });
    }
    interrupt
}

/// Whether whoever started us has set `signal` to be ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
