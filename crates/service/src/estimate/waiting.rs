//! One estimate for a caller that has no runtime: the command line, or a program that has it in its process.

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::history::History;

use super::{Answer, EstimateError, EstimateRequest, Estimator, Program, SamplingEvent};

/// The answer to `request`, remembered in the history at `database`. It ends when `stopped` does, and the program that
/// measures with it.
///
/// # Panics
///
/// Called from within a runtime, or if the system has no descriptors left for one.
pub fn estimate_and_wait(
    program: Program,
    database: &str,
    request: &EstimateRequest,
    stopped: impl Future<Output = ()>,
    tell: &mut (dyn FnMut(SamplingEvent) + Send),
) -> Result<Answer, EstimateError> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("descriptors for a runtime");
    runtime.block_on(async {
        // An answer is worth more than its being remembered.
        let (history, refused) = match History::open(database).await {
            Ok(history) => (Some(history), None),
            Err(error) => (None, Some(format!("it is not remembered: {error}"))),
        };
        let estimator = Estimator::of_command(program, history.clone());
        let answer = tokio::select! {
            answer = estimator.estimate(request, tell) => answer,
            () = stopped => Err(EstimateError::Interrupted),
        };
        if let Some(history) = history {
            history.close().await;
        }
        answer.map(|mut answer| {
            answer.notes.extend(refused);
            answer
        })
    })
}

/// Waits for Ctrl-C or SIGTERM, which ask us to end.
pub async fn signalled() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Then a signal ends us as it ends any program.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
