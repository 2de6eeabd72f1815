//! Links between networks: a rate, a delay, a loss.

use schedlab_model::{Nanos, percentage};
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
    /// The share of packets that are lost, in millionths.
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
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid rate '{text}': use 64kbit to 100Gbit, as in 10Mbit");
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNet {
    pub(crate) rate: Option<String>,
    pub(crate) delay: Option<String>,
    pub(crate) loss: Option<String>,
}

/// A link by its parts, as a file has them: `1Mbit`, `20ms`, `1%`.
///
/// # Errors
/// In a sentence.
pub fn link(rate: Option<&str>, delay: Option<&str>, loss: Option<&str>) -> Result<Link, String> {
    let own = |text: Option<&str>| text.map(str::to_owned);
    link_of(&RawNet { rate: own(rate), delay: own(delay), loss: own(loss) })
}

pub(crate) fn link_of(raw: &RawNet) -> Result<Link, String> {
    let rate = raw.rate.as_deref().map(rate).transpose()?;
    let delay = raw.delay.as_deref().map(str::parse::<Nanos>).transpose();
    let delay = delay.map_err(|error| error.to_string())?.unwrap_or_default();
    if delay > Nanos::from_secs(10) {
        return Err(format!("invalid delay {delay}: use at most 10s"));
    }
    let percent = |text: &str| {
        let loss = percentage(text).filter(|number| (0.0..100.0).contains(number));
        loss.ok_or_else(|| format!("invalid loss '{text}': use less than 100%, as in 1%"))
    };
    let loss = raw.loss.as_deref().map(percent).transpose()?.unwrap_or(0.0);
    let loss_millionths = (loss * 10_000.0).round() as u32;
    Ok(Link { rate_bit_s: rate, delay, loss_millionths, ..Link::default() })
}
