//! What the header of a program says: for which processor it is, and whether it needs libraries of its host.

/// Kind of a program header that names the loader of shared libraries.
const PT_INTERP: u32 = 3;

/// Processors by their numbers in a header, and as `uname -m` calls them.
const MACHINES: [(u16, &[&str]); 5] = [
    (62, &["x86_64", "amd64"]),
    (183, &["aarch64", "arm64"]),
    (243, &["riscv64"]),
    (21, &["ppc64le"]),
    (22, &["s390x"]),
];

/// A program of Linux for 64-bit processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elf {
    machine: u16,
    /// Whether it runs without libraries of the host it is on.
    pub is_static: bool,
}

impl Elf {
    /// Reads the header; `None` if it is none.
    pub fn of(content: &[u8]) -> Option<Self> {
        let [0x7f, b'E', b'L', b'F', 2, order @ (1 | 2), ..] = content else { return None };
        let number = |at: usize, bytes: usize| -> Option<u64> {
            let field = content.get(at..at.checked_add(bytes)?)?;
            let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
            Some(if *order == 1 { field.iter().rev().fold(0, add) } else { field.iter().fold(0, add) })
        };
        let machine = number(18, 2)? as u16;
        let (table, size, count) =
            (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
        let kind = |i: usize| number(table.checked_add(i * size)?, 4);
        let kinds = (0..count).map(kind).collect::<Option<Vec<_>>>()?;
        Some(Self { machine, is_static: !kinds.contains(&u64::from(PT_INTERP)) })
    }

    /// For which processor it is.
    pub fn machine(self) -> String {
        let known = MACHINES.iter().find(|(number, _)| *number == self.machine);
        known.map_or_else(|| format!("processor {}", self.machine), |(_, names)| names[0].to_owned())
    }

    /// Whether it is for what `uname -m` calls `machine`.
    pub fn is_for(self, machine: &str) -> bool {
        MACHINES.iter().any(|(number, names)| *number == self.machine && names.contains(&machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with program headers of these kinds.
    fn program(machine: u16, kinds: &[u32]) -> Vec<u8> {
        let mut content = vec![0; 64];
        content[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        content[18..20].copy_from_slice(&machine.to_le_bytes());
        content[32..40].copy_from_slice(&64_u64.to_le_bytes());
        content[54..56].copy_from_slice(&56_u16.to_le_bytes());
        content[56..58].copy_from_slice(&(kinds.len() as u16).to_le_bytes());
        for kind in kinds {
            content.extend(kind.to_le_bytes());
            content.resize(content.len() + 52, 0);
        }
        content
    }

    #[test]
    fn a_program_is_static_if_it_names_no_loader() {
        // A position-independent one has a dynamic section (2) all the same.
        for (kinds, is_static) in [(&[1, 1][..], true), (&[6, 1, 2], true), (&[6, 3, 1, 2], false)] {
            let elf = Elf::of(&program(62, kinds)).expect("a program");
            assert_eq!((elf.is_static, elf.machine()), (is_static, "x86_64".to_owned()), "{kinds:?}");
            assert!(elf.is_for("x86_64") && !elf.is_for("aarch64"));
        }
        assert_eq!(Elf::of(&program(40, &[])).expect("a program").machine(), "processor 40");
    }

    #[test]
    fn what_is_no_program_is_none() {
        let whole = program(62, &[1, 3]);
        for end in 0..whole.len() {
            // Cut within the kinds or before them.
            let kind_of_last = 64 + 56 + 4;
            assert_eq!(Elf::of(&whole[..end]).is_some(), end >= kind_of_last, "{end}");
        }
        let mut far = whole;
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!((Elf::of(&far), Elf::of(b"#!/bin/sh\nexit 0\n")), (None, None));
        let ours = std::fs::read("/proc/self/exe").expect("ourselves");
        assert!(Elf::of(&ours).is_some_and(|elf| elf.is_for(std::env::consts::ARCH)));
    }
}
