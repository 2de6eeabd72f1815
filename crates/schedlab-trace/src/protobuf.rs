//! Protobuf's wire format: numbers as varints, messages with their length before them.

/// Appends a number, seven bits a byte.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of wire type 0: the key and a varint.
pub fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// A signed number as protobuf's `int32` spells it: sign-extended to 64 bits.
pub(crate) fn signed(out: &mut Vec<u8>, field: u32, value: i32) {
    number(out, field, i64::from(value).cast_unsigned());
}

/// A field that is bytes: a text, a message, packed numbers.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// The value of a protobuf field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(value) => value,
            Self::Bytes(_) => 0,
        }
    }

    /// A signed number, of either spelling.
    pub(crate) fn signed(self) -> i32 {
        self.number().cast_signed() as i32
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The fields of a message, in its order; ends where it makes no sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let tag = take_varint(&mut self.0)?;
        let field = u32::try_from(tag >> 3).ok()?;
        let value = match tag & 7 {
            0 => Value::Number(take_varint(&mut self.0)?),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Value::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(take_varint(&mut self.0)?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Value::Number(u32::from_le_bytes(*bytes).into())
            }
            _ => return None,
        };
        Some((field, value))
    }
}

/// A number from the front of `bytes`.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    // Most tags and lengths are one byte.
    if let [byte, rest @ ..] = *bytes
        && *byte < 0x80
    {
        *bytes = rest;
        return Some(u64::from(*byte));
    }
    long_varint(bytes)
}

fn long_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// How many numbers a packed field has.
pub(crate) fn packed_count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte < 0x80).count()
}

/// The numbers of a packed field.
pub(crate) fn packed(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = bytes;
    std::iter::from_fn(move || take_varint(&mut rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back() {
        let mut out = Vec::new();
        number(&mut out, 1, u64::MAX);
        bytes(&mut out, 300, b"x");
        signed(&mut out, 2, -5);
        let fields: Vec<_> = Fields(&out).collect();
        assert_eq!(fields[0], (1, Value::Number(u64::MAX)));
        assert_eq!(fields[1], (300, Value::Bytes(b"x")));
        assert_eq!((fields[2].0, fields[2].1.signed()), (2, -5));
        for length in 0..out.len() {
            assert!(Fields(&out[..length]).count() < 3);
        }
        assert_eq!(Fields(&[0xff; 20]).count(), 0);
    }

    #[test]
    fn numbers_of_a_fixed_size_are_read_too() {
        // Fields 1 of four bytes and 2 of eight; 3 is a group, which nobody writes any longer.
        let mut fields = vec![1 << 3 | 5, 1, 2, 0, 0, 2 << 3 | 1, 3, 0, 0, 0, 0, 0, 0, 1];
        fields.push(3 << 3 | 3);
        let found: Vec<_> = Fields(&fields).collect();
        assert_eq!(found, [(1, Value::Number(0x201)), (2, Value::Number(1 << 56 | 3))]);
    }

    #[test]
    fn a_number_has_ten_bytes_at_most_and_a_value_has_one_kind() {
        let mut whole = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 7][..];
        assert_eq!((take_varint(&mut whole), whole), (Some(u64::MAX), &[7][..]));
        assert_eq!(take_varint(&mut &[0x80; 11][..]), None);
        assert_eq!(packed(&[1, 0x80, 1, 3, 0x80]).collect::<Vec<_>>(), [1, 128, 3]);
        assert_eq!((Value::Number(5).bytes(), Value::Bytes(b"a").number()), (&[][..], 0));
    }
}
