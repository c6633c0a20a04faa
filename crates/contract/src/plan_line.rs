//! What a dry run says: a line of JSON for each entry, and one with the totals behind the last.

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::exit::Exit;
use crate::summary::{FailedFile, Status};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// What would become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing bears its name: it would be made.
    New,
    /// What bears its name would be replaced, or given another mode or time.
    Changed,
    /// It would stay as it is.
    Same,
    /// The source has no such thing: it would be removed.
    Delete,
}

/// In what the source and what bears its name at the destination differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// One is a file, the other is none, or the like.
    Kind,
    /// How long they are.
    Size,
    /// What they hold, which was compared.
    Content,
    /// Where the links lead.
    Target,
    /// When they were modified.
    Time,
    /// Who may read, write and execute them.
    Mode,
    /// Nothing that can be seen, but what is there was never verified.
    Unverified,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLine {
    /// What would become of it.
    pub action: Action,
    /// What it is.
    pub kind: EntryKind,
    /// Where, relative to the destination; unprintable bytes as `\x1b`.
    pub path: String,
    /// How long it is at the source, or what would be removed; 0 but for files.
    pub bytes: u64,
    /// Whether its content would be sent: of a file that is made or replaced, also of an empty one.
    pub sent: bool,
    /// Why it would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<Difference>,
}

/// How many entries one thing would happen to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// How long it would take, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTime {
    /// Bytes to send over the rate.
    pub seconds: u64,
    /// The rate, in bit/s.
    pub rate_bps: u64,
    /// What it was measured by: `memory`, what the path last held, or `history`, the transfers that are recorded.
    pub from: TimeSource,
    /// How long ago the last of that was, in s.
    pub age_s: u64,
}

/// What knows how fast a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// What the path last held.
    Memory,
    /// Transfers that are recorded.
    History,
}

/// What all entries come to. It is the last line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanSummary {
    /// `true`, which no entry's line has.
    pub dry_run: bool,
    /// `complete`, or why not everything could be said.
    pub status: Status,
    /// What would be made.
    pub new: Tally,
    /// What would be changed.
    pub changed: Tally,
    /// What would stay.
    pub same: Tally,
    /// What would be removed.
    pub delete: Tally,
    /// Files whose content would be sent.
    pub sent_files: u64,
    /// How long they are.
    pub sent_bytes: u64,
    /// How long that would take, where anything is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<PlannedTime>,
    /// Entries of which it could not be said, also those that a run could not copy.
    pub failed: u64,
    /// The first of them, and why; also why nothing would be deleted.
    pub failures: Vec<FailedFile>,
    /// What ended it early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
}

impl PlanSummary {
    /// Counts one entry in.
    pub fn add(&mut self, line: &PlanLine) {
        let tally = match line.action {
            Action::New => &mut self.new,
            Action::Changed => &mut self.changed,
            Action::Same => &mut self.same,
            Action::Delete => &mut self.delete,
        };
        match line.kind {
            EntryKind::File => tally.files += 1,
            EntryKind::Directory => tally.directories += 1,
            EntryKind::Link => tally.links += 1,
        }
        tally.bytes = tally.bytes.saturating_add(line.bytes);
        if line.sent {
            self.sent_files += 1;
            self.sent_bytes = self.sent_bytes.saturating_add(line.bytes);
        }
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self.error_kind {
            Some(kind) => Exit::of(kind),
            None if self.failed > 0 || !self.failures.is_empty() => Exit::SomeFailed,
            None => Exit::Complete,
        }
    }
}

impl Tally {
    /// Entries of all kinds.
    pub const fn entries(&self) -> u64 {
        self.files + self.directories + self.links
    }
}

impl Difference {
    /// Its word in JSON, which people read as well.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Size => "size",
            Self::Content => "content",
            Self::Target => "target",
            Self::Time => "time",
            Self::Mode => "mode",
            Self::Unverified => "unverified",
        }
    }
}

impl Action {
    /// Its word in JSON, which people read as well.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Same => "same",
            Self::Delete => "delete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(action: Action, bytes: u64, sent: bool) -> PlanLine {
        let differs = if action == Action::Changed { vec![Difference::Time] } else { Vec::new() };
        PlanLine { action, kind: EntryKind::File, path: "a".to_owned(), bytes, sent, differs }
    }

    #[test]
    fn the_words_of_the_lines_are_what_scripts_know() {
        let text = |line: &PlanLine| serde_json::to_string(line).expect("JSON");
        let new = line(Action::New, 5, true);
        assert_eq!(text(&new), r#"{"action":"new","kind":"file","path":"a","bytes":5,"sent":true}"#);
        let changed = line(Action::Changed, 5, false);
        let wanted =
            r#"{"action":"changed","kind":"file","path":"a","bytes":5,"sent":false,"differs":["time"]}"#;
        assert_eq!(text(&changed), wanted);
        for line in [new, changed] {
            assert_eq!(serde_json::from_str::<PlanLine>(&text(&line)).expect("a line"), line);
        }
        use Difference as D;
        for word in [D::Kind, D::Size, D::Content, D::Target, D::Time, D::Mode, D::Unverified] {
            assert_eq!(serde_json::to_value(word).expect("JSON"), word.name());
        }
        for word in [Action::New, Action::Changed, Action::Same, Action::Delete] {
            assert_eq!(serde_json::to_value(word).expect("JSON"), word.name());
        }
    }

    #[test]
    fn totals_are_those_of_the_lines() {
        let mut all = PlanSummary::default();
        all.add(&line(Action::New, 0, true));
        all.add(&line(Action::Changed, 7, false));
        all.add(&line(Action::Changed, 8, true));
        all.add(&PlanLine { kind: EntryKind::Directory, ..line(Action::Delete, 0, false) });
        assert_eq!((all.sent_files, all.sent_bytes), (2, 8));
        assert_eq!((all.changed.files, all.changed.bytes, all.delete.directories), (2, 15, 1));
        assert_eq!(all.new.entries() + all.changed.entries() + all.same.entries() + all.delete.entries(), 4);
        let exit = |failed, error_kind| PlanSummary { failed, error_kind, ..all.clone() }.exit();
        assert_eq!(exit(0, None), Exit::Complete);
        assert_eq!(exit(1, None), Exit::SomeFailed);
        assert_eq!(exit(1, Some(ErrorKind::Denied)), Exit::Refused);
        let kept =
            FailedFile { path: String::new(), kind: ErrorKind::Denied, message: String::new(), errno: None };
        assert_eq!(
            PlanSummary { failures: vec![kept], ..all }.exit(),
            Exit::SomeFailed,
            "nothing would be deleted"
        );
    }
}
