//! Randomness.

/// Thirty-two bytes from the operating system's generator.
pub(crate) fn bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).expect("the operating system has randomness");
    bytes
}
