//! Call chains of switches and wakeups as records of their own: the stack with which a task went to sleep, or woke another.
//!
//! Other traces hold a record of the tracepoint `kernel_stack` behind such an event. Here it is made of the event's
//! sample, so that nobody behind the reader can tell the two apart. Beside the addresses it holds what naming them
//! needs: process and time.

use super::head::Head;
use super::layout::{Layout, When};
use super::mappings::SpaceChange;
use crate::call_chain::SLEEPS;
use crate::chain_names::ChainNames;
use crate::encoding::Encoding;
use crate::entry::{Plan, Slot};
use crate::format::identify;
use crate::plan::Decoder;
use std::sync::Arc;

/// Addresses of a chain that are kept: `kernel.perf_event_max_stack` is 127 unless somebody raised it.
const WORDS_MAX: usize = 512;

/// The bits of `common_flags` in a hardware interrupt, in a softirq and in an interrupt that cannot be masked: the chain is
/// that of a task that wakes nobody.
const IN_INTERRUPT: u8 = 0x08 | 0x10 | 0x40;

/// What a stack's record holds before its addresses, in bytes.
const HEAD: usize = 24;

/// The format of a stack's record, under an id that no other has.
pub(super) fn format(head: &Head) -> Option<(u16, String)> {
    let formats = &head.tracing.as_ref()?.formats;
    if !head.layouts.iter().any(|of| of.is_tracepoint() && of.has_chain()) {
        return None;
    }
    let ids = formats.iter().filter_map(|(_, text)| identify(text)).map(|(_, id)| id);
    let id = ids.max().unwrap_or(0).checked_add(1)?;
    let field = |declaration: &str, offset: u32, size: u32| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
    };
    let fields = [
        field("unsigned short common_type", 0, 2),
        field("unsigned char common_flags", 2, 1),
        field("unsigned char common_preempt_count", 3, 1),
        field("int common_pid", 4, 4),
        field("int size", 8, 4),
        field("int process", 12, 4),
        field("u64 time", 16, 8),
        field("unsigned long caller[8]", 24, 64),
    ];
    Some((id, format!("name: kernel_stack\nID: {id}\nformat:\n{}", fields.concat())))
}

/// Makes the records, and tells [`ChainNames`] what lay where.
pub(super) struct Chains {
    pub(super) names: Arc<ChainNames>,
    /// The id of the records; `None` while no event has chains.
    pub(super) id: Option<u16>,
}

impl Chains {
    /// The record of a sample's stack, if its task goes to sleep or wakes another.
    pub(super) fn record(
        &self,
        sample: &[u8],
        layout: &Layout,
        decoder: &Decoder,
        encoding: Encoding,
        when: When,
        raw: &[u8],
    ) -> Option<Vec<u8>> {
        let id = self.id?;
        let is_kept = match decoder.entry(encoding.u16(*raw.first_chunk()?)).plan {
            Plan::Switch { prev_state, .. } => number(raw, prev_state, encoding)? & SLEEPS != 0,
            Plan::Waking { .. } => raw.get(2)? & IN_INTERRUPT == 0,
            _ => false,
        };
        if !is_kept {
            return None;
        }
        let chain = layout.chain(sample, encoding)?;
        let count = (chain.len() / 8).min(WORDS_MAX);
        if count == 0 {
            return None;
        }
        // Where the sample does not tell, its task's number is that of most.
        let common = || raw.get(4..)?.first_chunk().map(|pid| encoding.u32(*pid));
        let process = layout.process(sample, encoding).or_else(common)?;
        let mut body = Vec::with_capacity(HEAD + count * 8);
        body.extend(encoding.put_u16(id));
        body.extend(raw.get(2..8)?);
        body.extend(encoding.put_u32(count as u32));
        body.extend(encoding.put_u32(process));
        body.extend(encoding.put_u64(when.time));
        body.extend(&chain[..count * 8]);
        Some(body)
    }

    /// Takes in a record that tells of mappings and processes, if it is one.
    pub(super) fn tell(&self, kind: u32, record: &[u8], time: u64, encoding: Encoding) {
        match SpaceChange::of(kind, record, time, encoding) {
            Some(SpaceChange::Began { pid, at, parent }) => self.names.began(pid, at, parent),
            Some(SpaceChange::Mapped { pid, range, offset, source }) => {
                self.names.mapped(pid, time, range, offset, source);
            }
            None => {}
        }
    }
}

fn number(body: &[u8], slot: Slot, encoding: Encoding) -> Option<u64> {
    let rest = body.get(usize::from(slot.at)..)?;
    Some(match slot.size {
        8 => encoding.u64(*rest.first_chunk()?),
        4 => encoding.u32(*rest.first_chunk()?).into(),
        2 => encoding.u16(*rest.first_chunk()?).into(),
        _ => (*rest.first()?).into(),
    })
}
