//! How a file spells numbers: byte order and the size of the traced kernel's `long`.

/// Byte order and word size of the machine that was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Most significant byte first.
    pub big_endian: bool,
    /// Size of the kernel's `long` in bytes: 4 or 8.
    pub long: u8,
}

impl Default for Encoding {
    /// The encoding of 64-bit little-endian kernels.
    fn default() -> Self {
        Self { big_endian: false, long: 8 }
    }
}

impl Encoding {
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    pub(crate) fn put_u16(self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn put_u32(self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn put_u64(self, value: u64) -> [u8; 8] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}
