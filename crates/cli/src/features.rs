//! Parts that can be left out when the program is built: what is of which, so that what is asked for and not here is told so.

use tidegate_contract::feature;

/// A feature, and whether it is here.
macro_rules! of {
    ($feature:literal) => {
        ($feature, cfg!(feature = $feature))
    };
}

/// Commands and options, by the feature that they are of.
const PARTS: [((&str, bool), &[&str]); 8] = [
    (of!("fleet"), &["spread", "mover", "movers"]),
    (of!("gateway"), &["--https", "--http", "--status"]),
    (of!("get"), &["get", "ranges", "size"]),
    (of!("man"), &["completions", "man"]),
    (of!("put"), &["put"]),
    (of!("service"), &["estimate", "serve", "submit", "jobs", "job", "cancel", "history"]),
    (of!("ssh"), &["--ssh", "-e", "--via", "--remote-path", "--install-remote"]),
    (of!("train"), &["simulate", "train"]),
];

/// That `word`, a command or an option, is of a part that was left out, if it is.
pub fn left_out(word: &str) -> Option<String> {
    let ((feature, _), _) = PARTS.iter().find(|((_, is_here), words)| !is_here && words.contains(&word))?;
    Some(feature::missing(word, feature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_is_not_left_out() {
        for ((feature, is_here), words) in PARTS {
            for word in words {
                let said = left_out(word);
                let names_it = said.is_some_and(|said| said.contains(feature) && !said.contains('\n'));
                assert_eq!(names_it, !is_here, "{word}");
            }
        }
        assert_eq!(left_out("copy"), None);
    }
}
