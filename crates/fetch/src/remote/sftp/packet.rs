//! Packets of SFTP, version 3 (draft-ietf-secsh-filexfer-02), as bytes: a length, and fields of fixed order behind it.

/// Longest packet that is taken from a server: OpenSSH sends 256 KiB at most.
pub(crate) const MAX_PACKET: usize = 512 << 10;

/// Bytes of a packet's length.
pub(crate) const LENGTH: usize = 4;

/// A packet that is being written.
pub(crate) struct Packet(Vec<u8>);

impl Packet {
    /// One of `kind`; its length is filled in at its end.
    pub fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A length and as many bytes.
    pub fn string(mut self, bytes: &[u8]) -> Self {
        self.0.reserve(LENGTH + bytes.len());
        self = self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }

    /// All of it, with its length.
    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - LENGTH) as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// The fields of a packet that came; nothing is believed of it, so that each is there or is not.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes)
    }

    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let packet = Packet::new(5).u32(7).string(b"ab").u64(1 << 40).finish();
        assert_eq!(packet, b"\0\0\0\x13\x05\0\0\0\x07\0\0\0\x02ab\0\0\x01\0\0\0\0\0");
        let mut fields = Fields::new(&packet[LENGTH..]);
        assert_eq!((fields.u8(), fields.u32()), (Some(5), Some(7)));
        assert_eq!((fields.string(), fields.u64()), (Some(&b"ab"[..]), Some(1 << 40)));
        assert!(fields.is_empty() && fields.u8().is_none());
    }

    #[test]
    fn a_field_that_is_longer_than_its_packet_is_none() {
        assert_eq!(Fields::new(b"\xff\xff\xff\xffab").string(), None);
        assert_eq!(Fields::new(b"\0\0\0").u32(), None);
        assert_eq!(Fields::new(b"\0\0\0\0\0\0\0").u64(), None);
    }
}
