//! A file whose size nobody knows before its end, and which comes in one go: it is written as it comes, by
//! the connection itself, and cannot be resumed.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use tidegate_transfer::error::{Error, ErrorKind, Result};
use tidegate_transfer::manifest::BLOCK;
use tidegate_transfer::pipeline::write_path::WriteHandler;

use crate::get::digest::place;
use crate::get::fetch::Worker;
use crate::get::file::{Body, UNKNOWN};
use crate::get::queue::Job;
use crate::remote::{Opened, Refusal, Why};

/// How a stream failed.
enum Broken {
    /// By the server, for now.
    Source(Error),
    /// By the server, for good.
    Wrong(Error),
    /// By the disk.
    Sink(Error),
    /// Nobody wants it any more.
    Over,
}

impl Worker<'_> {
    pub(super) fn stream(&mut self, job: &Job, opened: Opened, asked_at: Instant) {
        let (file, shared) = (&job.file, self.shared);
        if opened.range.end != UNKNOWN {
            let why =
                format!("{} sent a part of a file whose size it does not tell", place(file, job.mirror));
            return self.leave(job, None, Error::new(ErrorKind::Protocol, why));
        }
        {
            let mirror = &mut file.lock().mirrors[job.mirror];
            (mirror.whole, mirror.used) = (true, true);
        }
        let body = match shared.begin_body(file, job.mirror, &opened.version, None) {
            Ok(body) => body,
            Err(error) => return shared.fail_one(file, &error),
        };
        let mut source = opened.body;
        match self.copy(job, &body, &mut *source) {
            Ok(bytes) => {
                self.measured(&file.hosts[job.mirror], bytes, asked_at);
                shared.streamed(&body);
            }
            Err(Broken::Source(error)) => {
                drop(source);
                let refusal = Refusal::of(Why::Broken, error);
                self.refused(job, Some(&body), refusal, |not_before| {
                    shared.begin_anew(file, Some(&body), not_before);
                });
            }
            Err(Broken::Wrong(error)) => {
                self.leave(job, Some(&body), error);
                // Another mirror begins with nothing.
                shared.begin_anew(file, Some(&body), None);
            }
            Err(Broken::Sink(error)) => shared.write_failed(&body, error),
            Err(Broken::Over) => {}
        }
    }

    /// Copies all that comes to the part file; answers with the file's size.
    fn copy(&self, job: &Job, body: &Arc<Body>, source: &mut dyn Read) -> Result<u64, Broken> {
        let (file, shared) = (&job.file, self.shared);
        let part = body.incoming.part(&*shared.path.sink, None).map_err(Broken::Sink)?;
        let declared = file.record.bytes;
        let mut hashers = body.front().hashers.take().unwrap_or_default();
        let mut buffer = vec![0; BLOCK as usize];
        let mut at = 0;
        loop {
            if shared.path.is_stopped() || body.has_ended() {
                return Err(Broken::Over);
            }
            let most = self.portion().min(buffer.len());
            let n = match source.read(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Broken::Source(Error::connection("reading", place(file, job.mirror), error)));
                }
            };
            self.count(n);
            part.write_at(at, &buffer[..n]).map_err(Broken::Sink)?;
            shared.path.count_written(n as u64);
            shared.count_written(body, n as u64);
            hashers.update(&buffer[..n]);
            at += n as u64;
            if declared.is_some_and(|declared| at > declared) {
                break;
            }
        }
        if let Some(declared) = declared.filter(|&declared| declared != at) {
            let than = if at > declared { "more than" } else { "only" };
            let known = if at > declared { declared } else { at };
            let place = place(file, job.mirror);
            let why = format!(
                "{place} sent {than} {known} bytes, and {declared} were declared for {}",
                file.name()
            );
            return Err(Broken::Wrong(Error::new(ErrorKind::Corrupt, why)));
        }
        body.size.store(at, Relaxed);
        shared.resized(file, at);
        body.front().hashers = Some(hashers);
        Ok(at)
    }
}
