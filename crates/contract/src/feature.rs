//! Parts of the program that can be left out when it is built.

/// That `what` is of a part that this program is without: which one, and how to have it.
pub fn missing(what: &str, feature: &str) -> String {
    format!(
        "{what}: this program was built without the feature `{feature}`: take one that has it, or build it with --features {feature}"
    )
}
