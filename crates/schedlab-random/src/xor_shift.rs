//! xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 2016).

/// A generator with 64 bits of state, which must not be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XorShiftStar(u64);

impl XorShiftStar {
    /// From a state. With 0, all numbers are 0.
    #[must_use]
    pub const fn new(state: u64) -> Self {
        Self(state)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The state as it is now.
    #[must_use]
    pub const fn state(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_definition() {
        // By hand for the state 1: 1 ^ (1 << 25) is 0x2000001, and nothing of it is left after a shift by 27.
        let mut random = XorShiftStar::new(1);
        assert_eq!(random.bits(), 0x200_0001_u64.wrapping_mul(0x2545_f491_4f6c_dd1d));
        assert_eq!(random.state(), 0x200_0001);
        assert_eq!(XorShiftStar::new(0).bits(), 0);
    }
}
