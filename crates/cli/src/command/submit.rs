//! `tidegate submit`: gives jobs to a running service.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_control::ByteCount;
use tidegate_control::units::parse_duration;
use tidegate_fetch::archive::Accession;
use tidegate_fleet::client::Service;
use tidegate_service::job::file::{Format, MAX_JOBS, read};
use tidegate_service::job::{Dependency, JobId, JobKind, Request, Spec};
use tidegate_service::queue::IdempotencyKey;
use tidegate_spec::address::{self, Route};
use tidegate_spec::estimate::SamplingSpec;
use tidegate_spec::filters::FilterSpec;
use tidegate_spec::options::Options;
use tidegate_transfer::error::Error;

use crate::exit::usage;
use crate::service::jobs::wait_for;
use crate::service::{ServiceArgs, address_there};
use crate::terminal;

/// Most bytes of one job file.
const MAX_FILE: u64 = 256 << 20;
/// How job files end: TOML, JSON, and Stork's ClassAds under the names they go by.
const JOB_FILES: [&str; 8] = ["toml", "json", "stork", "dap", "sub", "submit", "ad", "classad"];
/// Most bytes that are read of a policy; the service takes less.
const MAX_POLICY: u64 = 64 << 20;
/// Most jobs of one request, where they do not name each other: well below what the service takes.
const MAX_BATCH_JOBS: usize = 5_000;
/// Most bytes of one request; likewise.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Submit transfer jobs to a running service.
///
/// Either SRC… DST, one job; or job files, which end in .toml, .json, .stork, .dap, .sub, .submit, .ad or .classad
/// (Stork ClassAds), or '-' for standard input. SRC is a path, NAME:/PATH of a remembered endpoint, a URL, or an
/// accession of a sequence archive that goes to a path, as in `tidegate submit SRR15852393 /data/`; write ./SRR15852393
/// for a file of that name. A job that was acknowledged survives a crash of the service. A path is sampled before for a
/// job that cannot adapt its streams, or with one of the options of samples.
#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Job files, or sources and a destination
    #[arg(value_name = "FILE|SRC|DST", required = true)]
    words: Vec<String>,
    /// Jobs of a higher priority are begun first
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    priority: i32,
    /// Begin only when this job is done
    #[arg(long, value_name = "ID")]
    after: Vec<JobId>,
    /// Try so often again after failures that may pass, other than that nobody answers [default: 5]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Try so long again while an end does not answer, since anything was moved [default: 1d]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    retry_for: Option<Duration>,
    /// How much it is, where that is known
    #[arg(long, value_name = "SIZE")]
    bytes: Option<ByteCount>,
    /// One stream, neither estimated nor adapted
    #[arg(long)]
    no_optimization: bool,
    #[command(flatten)]
    sampling: SamplingSpec,
    #[command(flatten)]
    filters: FilterSpec,
    /// What the rule `policy` decides by (--option=--optimizer=policy): the content of FILE goes with the job
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Answer with an estimate instead of moving anything; how much it is the source is asked, unless --bytes says it
    #[arg(long)]
    estimation: bool,
    /// An option for what moves the data, as in --option=--limit-network=80Mbit/s
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,
    /// What this submission is called: the same jobs under the same key are taken once, so it can be tried again
    /// when no answer came
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<IdempotencyKey>,
    /// Wait until all are at their end; exit 0 if all are done
    #[arg(long)]
    wait: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// What the service answers.
#[derive(Debug, Deserialize, Serialize)]
struct Submitted {
    ids: Vec<JobId>,
    /// Whether they were submitted before, under the same key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
}

/// Runs the command.
pub fn run(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let requests = args.requests()?;
    let service = args.service.open()?;
    if let Some(key) = &args.idempotency_key {
        // A key is of one batch: parts could be told from other parts no more.
        if requests.len() > MAX_JOBS {
            let why = format!("{} jobs under one key; at most {MAX_JOBS} are taken", requests.len());
            return Err(usage(format!("{why}: submit them in parts, each with a key of its own")).into());
        }
        let all: Submitted = service.post_once("/jobs", Some(&key.to_string()), &requests)?;
        tell(args, &all)?;
        return if args.wait { wait(&service, &all.ids) } else { Ok(ExitCode::SUCCESS) };
    }
    let mut all = Submitted { ids: Vec::with_capacity(requests.len()), repeated: false };
    for batch in batches(&requests)? {
        match service.post::<Submitted>("/jobs", &batch) {
            Ok(taken) => all.ids.extend(taken.ids),
            Err(error) if all.ids.is_empty() => return Err(error.into()),
            Err(error) => {
                tell(args, &all)?;
                let done = all.ids.len();
                let taken = format!("{done} of {} jobs were taken, and then", requests.len());
                return Err(error.within(taken).into());
            }
        }
    }
    tell(args, &all)?;
    if args.wait { wait(&service, &all.ids) } else { Ok(ExitCode::SUCCESS) }
}

/// The requests in parts; in one, if some name others.
fn batches(requests: &[Request]) -> anyhow::Result<Vec<&[Request]>> {
    let names_others = |request: &Request| request.after.iter().any(|one| matches!(one, Dependency::Name(_)));
    if requests.iter().any(names_others) {
        return Ok(vec![requests]);
    }
    let (mut batches, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (i, request) in requests.iter().enumerate() {
        let size = serde_json::to_vec(request)?.len() + 1;
        if i - begin == MAX_BATCH_JOBS || (i > begin && bytes + size > MAX_BATCH_BYTES) {
            batches.push(&requests[begin..i]);
            (begin, bytes) = (i, 0);
        }
        bytes += size;
    }
    batches.push(&requests[begin..]);
    Ok(batches)
}

fn tell(args: &SubmitArgs, submitted: &Submitted) -> anyhow::Result<()> {
    if args.json {
        terminal::print_json(submitted)?;
        return Ok(());
    }
    let text = match &submitted.ids[..] {
        [one] if submitted.repeated => format!("job {one} was submitted before, under the same key"),
        [first, .., last] if submitted.repeated => {
            format!(
                "{} jobs were submitted before, {first} to {last}, under the same key",
                submitted.ids.len()
            )
        }
        [one] => format!("job {one} submitted; `tidegate job {one} --follow` shows how it goes"),
        [first, .., last] => format!("{} jobs submitted, {first} to {last}", submitted.ids.len()),
        [] => "no job submitted".to_owned(),
    };
    terminal::print(&text)?;
    Ok(())
}

fn wait(service: &Service, ids: &[JobId]) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for &id in ids {
        let job = wait_for(service, id)?;
        let ended = job.code();
        if ended != ExitCode::SUCCESS {
            terminal::complain(&format!("job {id} is {}: {}", job.job.state, job.job.reason));
            code = ended;
        }
    }
    Ok(code)
}

impl SubmitArgs {
    fn requests(&self) -> anyhow::Result<Vec<Request>> {
        let chosen = Options::of(&self.filters.content()?);
        if self.words.iter().all(|word| is_job_file(word)) {
            let mut all = Vec::new();
            for word in &self.words {
                all.extend(self.requests_in(word, &chosen)?);
            }
            return Ok(all);
        }
        let Some((destination, sources @ [_, ..])) = self.words.split_last() else {
            let why = format!(
                "'{}' alone is neither a job file (.{}) nor SRC DST",
                self.words[0],
                JOB_FILES.join(", .")
            );
            return Err(usage(why).into());
        };
        let mut request = Request::transfer("", address_there(destination)?);
        let source = |word: &String| source_there(word, &request.destination);
        request.sources = sources.iter().map(source).collect::<Result<_, _>>()?;
        request.optimization = !self.no_optimization;
        self.add_to(&mut request, &chosen)?;
        if self.estimation {
            request.kind = JobKind::Estimation;
        }
        request.check().map_err(|error| usage(error.to_string()))?;
        Ok(vec![request])
    }

    /// The jobs of a file; what is said on the command line comes on top.
    fn requests_in(&self, word: &str, chosen: &Options) -> anyhow::Result<Vec<Request>> {
        let (shown, path) =
            if word == "-" { ("standard input", None) } else { (word, Some(Path::new(word))) };
        let wrong = |why: &dyn std::fmt::Display| usage(format!("{shown}: {why}"));
        let mut text = String::new();
        let mut input: Box<dyn Read> = match path {
            None => Box::new(std::io::stdin().lock()),
            Some(path) => Box::new(std::fs::File::open(path).map_err(|error| wrong(&error))?),
        };
        input.by_ref().take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| wrong(&error))?;
        if text.len() as u64 > MAX_FILE {
            return Err(wrong(&"is too large: submit it in parts").into());
        }
        let here = std::env::current_dir().map_err(|error| wrong(&error))?;
        let base = path.and_then(Path::parent).map_or_else(|| here.clone(), |parent| here.join(parent));
        let mut requests =
            read(&text, Format::of(path, &text), Some(&base)).map_err(|error| wrong(&error))?;
        for request in &mut requests {
            request.optimization &= !self.no_optimization;
            self.add_to(request, chosen)?;
            request.check().map_err(|error| wrong(&error))?;
        }
        Ok(requests)
    }

    fn add_to(&self, request: &mut Request, chosen: &Options) -> Result<(), Error> {
        if self.priority != 0 {
            request.priority = self.priority;
        }
        request.after.extend(self.after.iter().map(|id| Dependency::Id(*id)));
        if !self.option.is_empty() {
            let typed = request.route().and_then(|route| Spec::typed(&self.option, route));
            request.options.extend(typed.map_err(usage)?);
        }
        request.options.extend(chosen.clone());
        request.retries = self.retries.unwrap_or(request.retries);
        request.retry_for_s = self.retry_for.map_or(request.retry_for_s, |time| time.as_secs());
        request.bytes = self.bytes.or(request.bytes);
        let sampling = &self.sampling;
        if sampling.history.use_history {
            request.use_history = true;
            request.history_age_s = Some(sampling.history.history_age.as_secs());
        }
        request.sampler = sampling.sampler.or(request.sampler);
        request.iperf3 = sampling.iperf3.clone().or_else(|| request.iperf3.take());
        if sampling.sample_time.is_some() || sampling.sample_size.is_some() {
            let time = sampling.sample_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            (request.sample_ms, request.sample_bytes) = (time, sampling.sample_size);
        }
        request.threshold = sampling.threshold.or(request.threshold);
        request.model = sampling.model.unwrap_or(request.model);
        request.always_sample |= sampling.always_sample;
        request.buffer_bytes = sampling.tcp_buffer.or(request.buffer_bytes);
        if let Some(file) = &self.policy {
            let content = std::fs::File::open(file).and_then(|opened| {
                let mut content = Vec::new();
                opened.take(MAX_POLICY + 1).read_to_end(&mut content).map(|_| content)
            });
            let content = content.map_err(|error| usage(format!("{}: {error}", file.display())))?;
            *request = request.clone().with_policy(&content);
        }
        Ok(())
    }
}

/// A source as the service is told of it: an accession where one can be got, else what [`address_there`] makes of it.
fn source_there(word: &str, destination: &str) -> Result<String, Error> {
    let is_here = Path::new(word).exists();
    let is_got = address::accession(word).is_some() && Route::between(word, destination).is_ok();
    match Accession::near_miss(word) {
        _ if is_got && is_here => Err(usage(format!(
            "{word} is an accession, and there is a file of that name: write ./{word} for the file, or submit the \
             accession from another directory"
        ))),
        _ if is_got => Ok(word.to_owned()),
        Some(error) if !is_here => Err(usage(format!("{}, and there is no such file", error.message))),
        _ => address_there(word),
    }
}

fn is_job_file(word: &str) -> bool {
    let extension = Path::new(word).extension().and_then(|extension| extension.to_str());
    word == "-" || (!word.contains("://") && extension.is_some_and(|found| JOB_FILES.contains(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_sent_in_parts_that_the_service_takes() {
        let mut requests: Vec<Request> =
            (0..MAX_BATCH_JOBS + 7).map(|i| Request::transfer(format!("/{i}"), "/b")).collect();
        let sizes = |requests: &[Request]| -> Vec<usize> {
            batches(requests).expect("plain data").iter().map(|batch| batch.len()).collect()
        };
        assert_eq!(sizes(&requests), [MAX_BATCH_JOBS, 7]);
        requests.truncate(200);
        requests.iter_mut().for_each(|request| request.sources[0] = format!("/{}", "x".repeat(100_000)));
        let parts = sizes(&requests);
        assert!(parts.len() == 3 && parts.iter().sum::<usize>() == 200, "{parts:?}");
        requests[0].after.push(Dependency::Name("other".to_owned()));
        assert_eq!(sizes(&requests), [200]);
    }

    #[test]
    fn job_files_are_told_from_sources() {
        for (word, is) in [
            ("-", true),
            ("a.toml", true),
            ("x/b.stork", true),
            ("b.dap", true),
            ("b.submit", true),
            ("b.ad", true),
            ("a.bin", false),
            ("/data", false),
        ] {
            assert_eq!(is_job_file(word), is, "{word}");
        }
        assert!(!is_job_file("https://host/a.json"));
        assert_eq!(address_there("tg://h/x").as_deref(), Ok("tg://h/x"));
        assert_eq!(address_there("/a/b/").as_deref(), Ok("/a/b/"));
        assert!(address_there("b").is_ok_and(|path| path.starts_with('/') && path.ends_with("/b")));
    }

    #[test]
    fn an_accession_is_told_from_a_path() {
        let there = |word: &str, destination: &str| source_there(word, destination).map_err(|e| e.message);
        assert_eq!(there("SRR390728", "/data/").as_deref(), Ok("SRR390728"));
        // Nothing of an archive goes there: it can only be a file.
        assert!(there("SRR390728", "tg://T@h/x").is_ok_and(|path| path.ends_with("/SRR390728")));
        assert!(there("./SRR390728", "/data/").is_ok_and(|path| path.starts_with('/')));
        for (word, wanted) in [("SRR12", "6 to 12 digits"), ("CRR311377", "Genome Sequence Archive")] {
            let error = there(word, "/data/").expect_err(word);
            assert!(error.contains(wanted) && error.ends_with("and there is no such file"), "{error}");
        }
        assert!(there("run7", "/data/").is_ok_and(|path| path.ends_with("/run7")));
    }
}
