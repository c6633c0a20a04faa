//! Learning, held to a reference in NumPy.

mod training;
