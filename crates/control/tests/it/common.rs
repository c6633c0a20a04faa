//! What tests of controllers share.

/// As many seeds as there is time for: `few`, or `many` in the long mode.
pub fn seeds(few: u64, many: u64) -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { many } else { few }
}
