//! What servers of others need: their certificates, and checksums: each algorithm against what its authors publish for
//! `abc`, and how fast BLAKE3 is here.

use std::hint::black_box;
use std::time::Instant;

use anyhow::bail;
use tidegate_control::BitRate;
use tidegate_fetch::checksum::{Algorithm, Hashers};
use tidegate_fetch::remote::check_system_certificates;
use tidegate_transfer::error::Error;

use super::Found;

/// The sums of the three bytes `abc`.
const SUMS_OF_ABC: [(Algorithm, &str); 8] = [
    (Algorithm::Crc32, "352441c2"),
    (Algorithm::Crc32c, "364b3fb7"),
    (Algorithm::Crc64Nvme, "05e5cabb3fc1faeb"),
    (Algorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
    (Algorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (Algorithm::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
        Algorithm::Sha512,
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ),
    (Algorithm::Blake3, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
];

/// Whether they come out as published.
pub fn known_answers() -> anyhow::Result<Found> {
    for (algorithm, published) in SUMS_OF_ABC {
        let mut hashers = Hashers::new([algorithm]);
        hashers.update(b"abc");
        let computed = hashers.finish().hex(algorithm).unwrap_or_default();
        if computed != published {
            bail!(
                "the {algorithm} of abc comes out as {computed}, and is {published}: the program is damaged"
            );
        }
    }
    let data = vec![7; 32 << 20];
    let started = Instant::now();
    black_box(blake3::hash(black_box(&data)));
    let rate = BitRate::over(tidegate_control::ByteCount(data.len() as u64), started.elapsed());
    let names = SUMS_OF_ABC.map(|(algorithm, _)| algorithm.name()).join(", ");
    Ok(Found::Works(format!("{names} as published; BLAKE3 at {rate} by one processor")))
}

/// Whether servers on the web can be trusted.
pub fn certificates() -> anyhow::Result<Found> {
    Ok(match check_system_certificates() {
        Ok(()) => Found::Works("the system's, for get and put".to_owned()),
        Err(Error { message, .. }) => Found::Warning(format!(
            "{message}; for get and put install ca-certificates, or set SSL_CERT_FILE"
        )),
    })
}
