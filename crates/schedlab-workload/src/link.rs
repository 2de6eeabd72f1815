//! Links between networks: a rate, a delay, a loss.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

/// What a link does to what is sent over it, each way.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct Link {
    /// Bits a second; `None`: as fast as the machine copies.
    pub rate_bit_s: Option<u64>,
    /// Bytes that may wait before a link with a rate; 0: what it sends in 50 ms, the rest is dropped. A
    /// queue that holds more than the senders' socket buffers makes senders wait instead.
    pub queue_bytes: u64,
    /// Added to the way of each packet.
    pub delay: Nanos,
    /// Packets lost, in millionths.
    pub loss_millionths: u32,
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rate_bit_s {
            Some(rate) if rate % 1_000_000 == 0 => write!(f, "{} Mbit/s", rate / 1_000_000)?,
            Some(rate) => write!(f, "{} kbit/s", rate as f64 / 1e3)?,
            None => f.write_str("as fast as the machine copies")?,
        }
        if self.delay > Nanos::ZERO {
            write!(f, ", {} later", self.delay)?;
        }
        if self.loss_millionths > 0 {
            write!(f, ", {}% lost", f64::from(self.loss_millionths) / 10_000.0)?;
        }
        Ok(())
    }
}

/// Reads the rate of a link, `10Mbit`: bits a second, with the prefixes of powers of ten.
///
/// # Errors
/// In a sentence, for what is none, or not from 64 kbit/s to 100 Gbit/s.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a rate from 64kbit to 100Gbit, like 10Mbit");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let rate = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(wrong)?;
    if (64_000..=100_000_000_000).contains(&rate) { Ok(rate) } else { Err(wrong()) }
}
