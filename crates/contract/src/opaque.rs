//! Values that are shown by the name of their type alone, as what they hold is secret or of no use to a reader.

/// Implements `Debug` without a field.
///
/// ```
/// struct Password(String);
///
/// tidegate_contract::opaque!(Password);
/// assert_eq!(format!("{:?}", Password("guess".to_owned())), "Password { .. }");
/// ```
#[macro_export]
macro_rules! opaque {
    ($type:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    };
}
