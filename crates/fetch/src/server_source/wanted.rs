//! Which directories of a listing are entered: those that may hold something that is wanted.

use tidegate_transfer::error::Result;
use tidegate_transfer::filter::Filter;
use tidegate_transfer::path::inside;
use tidegate_transfer::selection::Selection;

use super::seen::above;

/// What is wanted, as far as names tell.
#[derive(Debug)]
pub(super) struct Wanted {
    filter: Filter,
    /// The names that are listed, sorted, if only those are wanted.
    names: Option<Vec<Vec<u8>>>,
}

impl Wanted {
    /// What `selection` says.
    pub fn of(selection: &Selection) -> Result<Self> {
        let names = selection.listed.then(|| {
            let mut names = selection.names.clone();
            names.sort_unstable();
            names
        });
        Ok(Self { filter: selection.filter()?, names })
    }

    /// Its rules.
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether the directory `inner` of a source is entered that is called `prefix` at the destination.
    pub fn enters(&self, prefix: &[u8], inner: &[u8]) -> bool {
        let Some(names) = &self.names else { return self.filter.takes(&inside(prefix, inner), true) };
        let has = |name: &[u8]| names.binary_search_by(|known| known[..].cmp(name)).is_ok();
        let beneath = [inner, b"/"].concat();
        let next = names.partition_point(|name| name < &beneath);
        has(b"")
            || has(inner)
            || above(inner).any(has)
            || names.get(next).is_some_and(|name| name.starts_with(&beneath))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_on_the_way_to_names_and_beneath_them_are_entered() {
        let names = ["a/b/c", "d", "e/f"].map(|name| name.as_bytes().to_vec()).to_vec();
        let selection = Selection { listed: true, names, ..Selection::default() };
        let wanted = Wanted::of(&selection).expect("no rules");
        for inner in ["a", "a/b", "d", "d/x/y", "e"] {
            assert!(wanted.enters(b"", inner.as_bytes()), "{inner}");
        }
        for inner in ["b", "a/x", "a/b/x", "dd", "e/g"] {
            assert!(!wanted.enters(b"", inner.as_bytes()), "{inner}");
        }
        assert!(Wanted::of(&Selection::default()).expect("no rules").enters(b"p", b"any"));
    }
}
