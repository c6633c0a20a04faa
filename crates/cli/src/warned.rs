//! Events that are for people: at a terminal what is told as it is, in another program's process warnings, too. Those are that
//! program's to tell, and not for a terminal it may not have.

use std::fmt::{self, Write as _};

use tidegate_contract::text::one_line;
use tidegate_run::told::TOLD;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::caller::Caller;
use crate::terminal;

/// Has `caller` hear what `work` warns of, and threads that it starts.
pub fn heard<T>(caller: &Caller, work: impl FnOnce() -> T) -> T {
    let ours = Targets::new().with_target("tidegate", LevelFilter::WARN).with_target(TOLD, LevelFilter::WARN);
    let subscriber = tracing_subscriber::registry().with(ours).with(ToCaller(caller.clone()));
    tracing::subscriber::with_default(subscriber, work)
}

/// Prints what is told to people as it is.
pub struct ToTerminal;

impl<S: Subscriber> Layer<S> for ToTerminal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let said = Said::of(event);
        match *event.metadata().level() {
            Level::ERROR => terminal::complain(&said),
            _ => terminal::tell(&said),
        }
    }
}

struct ToCaller(Caller);

impl<S: Subscriber> Layer<S> for ToCaller {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.complain(&one_line(&Said::of(event)));
    }
}

/// What an event says.
struct Said(String);

impl Said {
    fn of(event: &Event<'_>) -> String {
        let mut said = Self(String::new());
        event.record(&mut said);
        said.0
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
