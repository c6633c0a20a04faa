//! What of its source a job copies: rsync's filter rules and a list of names, as content. Whoever submits a job has read
//! the files that they come from; nothing here names one of the service's host.

use tidegate_transfer::filter::rule::{Line, Lines, read};
use tidegate_transfer::selection::bounds::{Moment, rsync_size};
use tidegate_transfer::text::show;

use super::request::Request;
use super::values::well_formed;
use crate::address::Route;

impl Request {
    /// Whether its rules and names can be read, and belong to a copy.
    pub(super) fn check_selection(&self, route: Route) -> Result<(), String> {
        let chooses = !self.filter.is_empty() || self.files.is_some();
        if chooses && route != Route::Copy {
            return Err(
                "filter and files are of a job by `tidegate copy`: nothing else chooses by them".to_owned()
            );
        }
        for text in &self.filter {
            well_formed("a filter rule", text)?;
            rule(text)?;
        }
        for name in self.files.iter().flatten() {
            well_formed("a name of files", name)?;
        }
        if self.files.is_some() && self.sources.len() > 1 {
            return Err("names of files are relative to one source, and it has several".to_owned());
        }
        Ok(())
    }
}

/// A rule of `--filter`.
pub(super) fn rule(text: &str) -> Result<(), String> {
    of_no_file(read(text.as_bytes(), Lines::Rules).map_err(|error| error.message)?)
}

/// A pattern of `--exclude` or `--include`.
pub(super) fn pattern(text: &str) -> Result<(), String> {
    of_no_file(read(text.as_bytes(), Lines::Prefixed(false)).map_err(|error| error.message)?)
}

/// A file that each directory of the source may hold (`:`) is part of what is copied; one that a rule names is not.
fn of_no_file(line: Line) -> Result<(), String> {
    match line {
        Line::Rule(_) | Line::Clear => Ok(()),
        Line::File(name, ..) => Err(format!(
            "the rules of the file {} would be read where the service runs: write them here, or have `tidegate submit` send them",
            show(&name)
        )),
    }
}

/// A size of `--min-size` or `--max-size`.
pub(super) fn size(text: &str) -> Result<(), String> {
    rsync_size(text).map(drop)
}

/// A time of `--newer-than` or `--older-than`.
pub(super) fn moment(text: &str) -> Result<(), String> {
    text.parse::<Moment>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_names_are_content_and_of_a_copy() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let with = |filter: &[&str], files: Option<&[&str]>| Request {
            filter: words(filter),
            files: files.map(words),
            ..Request::transfer("/a/", "/b/")
        };
        assert_eq!(with(&["- *.tmp", ":e .keep", "!", "P x"], Some(&["a", "d/e f", "."])).check(), Ok(()));
        assert_eq!(with(&[], Some(&[])).check(), Ok(()));
        let several = Request { sources: words(&["/a", "/c"]), ..with(&[], Some(&["x"])) };
        let got = Request { sources: words(&["https://h/x"]), ..with(&["- a"], None) };
        for (request, wanted) in [
            (with(&[". /etc/passwd"], None), "where the service runs"),
            (with(&["merge /etc/passwd"], None), "where the service runs"),
            (with(&[".e- rules"], None), "where the service runs"),
            (with(&[": ../rules"], None), "without a slash"),
            (with(&["*.tmp"], None), "begins with none of"),
            (with(&["- a\nb"], None), "control"),
            (with(&[], Some(&["a", ""])), "empty"),
            (several, "several"),
            (got, "by `tidegate copy`"),
        ] {
            let error = request.check().expect_err(wanted).to_string();
            assert!(error.contains(wanted) && !error.contains('\n'), "{wanted}: {error}");
        }
    }
}
