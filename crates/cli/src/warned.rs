//! Warnings of a run in another program's process: they are that program's to tell, and not for a terminal it may not have.

use std::fmt::{self, Write as _};

use tidegate_contract::text::one_line;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::caller::Caller;
use crate::told::TOLD;

/// Has `caller` hear what `work` warns of, and threads that it starts.
pub fn heard<T>(caller: &Caller, work: impl FnOnce() -> T) -> T {
    let ours = Targets::new().with_target("tidegate", LevelFilter::WARN).with_target(TOLD, LevelFilter::WARN);
    let subscriber = tracing_subscriber::registry().with(ours).with(ToCaller(caller.clone()));
    tracing::subscriber::with_default(subscriber, work)
}

struct ToCaller(Caller);

impl<S: Subscriber> Layer<S> for ToCaller {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        self.0.complain(&one_line(&said.0));
    }
}

/// What an event says.
struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
