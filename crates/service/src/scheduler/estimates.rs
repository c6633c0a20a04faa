//! Jobs ask the estimator of this service.

use std::sync::Arc;

use tidegate_control::{BitRate, ByteCount};

use crate::estimate::{self, Terms};
use crate::job::{Kind, Request, address};
use crate::mover::BoxFuture;

use super::{Estimated, Estimator};

/// What a transfer is taken to move if nobody says and it cannot be seen from here: enough to be worth a sample.
const UNKNOWN: ByteCount = ByteCount::gib(1);

impl Estimator for estimate::Estimator {
    fn estimate(&self, request: Arc<Request>, most: u16) -> BoxFuture<Result<Estimated, String>> {
        let this = self.clone();
        Box::pin(async move {
            let asked = asked(&request, most).await?;
            let answer = estimate::Estimator::estimate(&this, &asked, &mut |_| {}).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let whole = serde_json::to_value(&answer).map_err(|error| error.to_string())?;
            Ok(Estimated {
                streams: answer.streams,
                throughput: answer.throughput_bps.unwrap_or(BitRate::ZERO),
                reason: answer.reason,
                answer: whole,
            })
        })
    }
}

async fn asked(request: &Request, most: u16) -> Result<estimate::Request, String> {
    let source = request.sources.first().ok_or("it has no source")?;
    let bytes = match (request.bytes, request.kind) {
        (Some(bytes), _) => bytes,
        (None, Kind::Estimation) => {
            return Err("an estimation needs bytes: say how much is to be moved".to_owned());
        }
        (None, Kind::Transfer) => size(&request.sources).await.unwrap_or(UNKNOWN),
    };
    let mut asked = estimate::Request::new(source.clone(), request.destination.clone(), bytes);
    asked.sample_bytes = request.sample_bytes;
    asked.buffer_bytes = request.buffer_bytes;
    asked.x509proxy = request.x509proxy.clone();
    asked.use_history = request.use_history;
    asked.most_streams = most.max(1);
    asked.terms = terms(&request.options)?;
    Ok(asked)
}

/// The size of files of this host; `None` where there is a directory among them, which nobody walks for this.
async fn size(sources: &[String]) -> Option<ByteCount> {
    let mut all = ByteCount(0);
    for source in sources {
        let path = address::local(source);
        let known = tokio::fs::metadata(&*path).await.ok().filter(std::fs::Metadata::is_file)?;
        all += ByteCount(known.len());
    }
    Some(all)
}

/// What the options say of how the transfer will go.
fn terms(options: &[String]) -> Result<Terms, String> {
    let mut terms = Terms::default();
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        if !["--data-plane", "--limit-network", "--limit-link"].contains(&name) {
            continue;
        }
        let value = value
            .or_else(|| words.next().map(String::as_str))
            .ok_or_else(|| format!("{name} needs a value"))?;
        let rate = || value.parse::<BitRate>().map(Some).map_err(|error| error.to_string());
        match name {
            "--data-plane" => terms.clear = value == "clear",
            "--limit-network" => terms.limit_network = rate()?,
            _ => terms.limit_link = rate()?,
        }
    }
    Ok(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_asked_for_what_the_job_will_do() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [0; 77]).expect("written");
        let path = file.path().to_str().expect("text");
        let options = ["--data-plane", "clear", "--limit-network=8Mbit/s", "--checksum"];
        let mut request = Request {
            options: options.map(String::from).into(),
            use_history: true,
            sample_bytes: Some(ByteCount::mib(10)),
            ..Request::transfer(path, "tg://h/b")
        };
        let made = runtime.block_on(asked(&request, 9)).expect("asked");
        assert_eq!((made.bytes, made.most_streams, made.use_history), (ByteCount(77), 9, true));
        assert_eq!((made.terms.clear, made.terms.limit_network), (true, Some(BitRate::mbps(8))));
        assert_eq!(made.sample_bytes, Some(ByteCount::mib(10)));
        request.sources = vec!["/".to_owned()];
        assert_eq!(runtime.block_on(asked(&request, 9)).expect("asked").bytes, UNKNOWN);
        request.kind = Kind::Estimation;
        assert!(runtime.block_on(asked(&request, 9)).expect_err("refused").contains("needs bytes"));
    }
}
