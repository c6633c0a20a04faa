//! What is believed of a path: a [`Curve`] a stage.

pub mod curve;

pub use curve::Curve;
