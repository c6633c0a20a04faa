//! What of its source a job copies: rsync's filter rules and a list of names, as content. Whoever submits a job has read
//! the files that they come from; nothing here names one of the service's host.

use tidegate_transfer::filter::rule::{Line, Lines, read};
use tidegate_transfer::selection::bounds::{Moment, rsync_size};
use tidegate_transfer::text::show;

use super::values::well_formed;
use crate::address::Route;

/// Whether the rules `filter` and the names `files` of a job can be read, and belong to one on that route, of so many
/// sources.
pub(super) fn check(
    filter: &[String],
    files: Option<&[String]>,
    route: Route,
    sources: usize,
) -> Result<(), String> {
    if route != Route::Copy && !(filter.is_empty() && files.is_none()) {
        return Err(
            "filter and files are of a job by `tidegate copy`: nothing else chooses by them".to_owned()
        );
    }
    for text in filter {
        well_formed("a filter rule", text)?;
        rule(text)?;
    }
    for name in files.into_iter().flatten() {
        well_formed("a name of files", name)?;
    }
    match files {
        Some(_) if sources > 1 => {
            Err("names of files are relative to one source, and it has several".to_owned())
        }
        _ => Ok(()),
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
        let checked = |filter: &[&str], files: Option<&[&str]>, route, sources| {
            check(&words(filter), files.map(words).as_deref(), route, sources)
        };
        let fine = ["- *.tmp", ":e .keep", "!", "P x"];
        assert_eq!(checked(&fine, Some(&["a", "d/e f", "."]), Route::Copy, 1), Ok(()));
        assert_eq!(checked(&fine, None, Route::Copy, 2), Ok(()));
        assert_eq!(checked(&[], Some(&[]), Route::Copy, 1), Ok(()));
        assert_eq!(checked(&[], None, Route::Get, 2), Ok(()));
        for (filter, wanted) in [
            (". /etc/passwd", "where the service runs"),
            ("merge /etc/passwd", "where the service runs"),
            (".e- rules", "where the service runs"),
            (": ../rules", "without a slash"),
            ("*.tmp", "begins with none of"),
            ("- a\nb", "control"),
        ] {
            let error = checked(&[filter], None, Route::Copy, 1).expect_err(wanted);
            assert!(error.contains(wanted) && !error.contains('\n'), "{filter}: {error}");
        }
        for (refused, wanted) in [
            (checked(&[], Some(&["a", ""]), Route::Copy, 1), "empty"),
            (checked(&[], Some(&["a"]), Route::Copy, 2), "several"),
            (checked(&["- a"], None, Route::Get, 1), "by `tidegate copy`"),
            (checked(&[], Some(&[]), Route::Put, 1), "by `tidegate copy`"),
        ] {
            assert!(refused.as_ref().is_err_and(|error| error.contains(wanted)), "{wanted}: {refused:?}");
        }
    }
}
