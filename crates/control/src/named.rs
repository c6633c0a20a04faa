//! Values that are shown, and chosen, by their names.

/// Whether `text` is that name. A hyphen is as good as an underscore, of which names of several words have either.
///
/// ```
/// use tidegate_control::named::is_name;
///
/// assert!(is_name("full_second_order", "full-second-order"));
/// assert!(!is_name("full_second_order", "fullsecondorder"));
/// ```
pub fn is_name(name: &str, text: &str) -> bool {
    let plain = |text: &str| text.replace('-', "_");
    plain(name) == plain(text)
}

/// Shows each value of a type by its `name()`, and with `"what it is"` behind the type reads it by that, too; all there
/// are to choose from are `ALL`.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Side {
///     Left,
///     Right,
/// }
///
/// impl Side {
///     const ALL: [Self; 2] = [Self::Left, Self::Right];
///
///     const fn name(self) -> &'static str {
///         match self {
///             Self::Left => "left",
///             Self::Right => "right",
///         }
///     }
/// }
///
/// tidegate_control::named!(Side, "side");
/// assert_eq!(format!("{:>6}", Side::Left), "  left");
/// assert_eq!("right".parse(), Ok(Side::Right));
/// assert_eq!("up".parse::<Side>(), Err("no side 'up': choose one of left, right".to_owned()));
/// ```
#[macro_export]
macro_rules! named {
    ($type:ty) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
    ($type:ty, $what:literal) => {
        $crate::named!($type);

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|value| $crate::named::is_name(value.name(), text));
                found.ok_or_else(|| {
                    let known = Self::ALL.map(Self::name).join(", ");
                    let text: String = text.chars().take(40).collect();
                    format!("no {} '{}': choose one of {known}", $what, text.escape_debug())
                })
            }
        }
    };
}
