//! The head of a trace.dat as a caller describes it to a writer.

use super::Companion;
use super::options::TSC2NSEC;
use crate::encoding::Encoding;
use schedlab_model::{Comm, Pid};
use std::num::NonZeroU64;

/// The version of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Version {
    /// What every trace-cmd and KernelShark reads.
    #[default]
    V6,
    /// Sections, and compression; trace-cmd 3.0 and later.
    V7,
}

/// How a version 7 file is compressed. Version 6 knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// The file is not compressed.
    #[default]
    None,
    /// The file is compressed with zlib.
    Zlib,
    /// The file is compressed with Zstandard.
    Zstd,
}

impl Compression {
    /// The name that the file carries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

/// Another buffer beside the top one (an ftrace instance).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The name of the instance, not empty.
    pub name: String,
}

/// All of a trace.dat but its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the file.
    pub version: Version,
    /// Compression; must be none in version 6.
    pub compression: Compression,
    /// Byte order and word size of the traced kernel; the bodies must follow it.
    pub encoding: Encoding,
    /// Bytes of a page (sub-buffer) of the ring buffer, a multiple of 4,096 (or of the kernel's page).
    pub page_size: u32,
    /// Text of `events/header_page`; empty: the text that fits `encoding` and `page_size`.
    pub header_page: String,
    /// Text of `events/header_event`; empty: the text of every kernel since 2.6.30.
    pub header_event: String,
    /// Formats of ftrace's own events (`events/ftrace/*/format`).
    pub ftrace_formats: Vec<String>,
    /// System and text of `events/SYSTEM/NAME/format` for each tracepoint in the records.
    pub formats: Vec<(String, String)>,
    /// Text of `/proc/kallsyms`; may be empty.
    pub kallsyms: Vec<u8>,
    /// Text of `printk_formats`; may be empty.
    pub printk: Vec<u8>,
    /// Names of the tasks.
    pub cmdlines: Vec<(Pid, Comm)>,
    /// How many CPUs the machine has (their highest number plus one).
    pub cpus: u32,
    /// The clock of the time stamps by its kernel name: `mono`, `local`, `perf`, `boot`.
    pub clock: String,
    /// `uname` of the traced machine.
    pub uname: Option<String>,
    /// What events do not say: topology, affinity, marks, control groups.
    pub companion: Option<Companion>,
    /// Statistics of each CPU's buffer, in the words of `per_cpu/cpuN/stats`.
    pub cpustat: Vec<String>,
    /// Further options, as number and bytes, written as they stand (DATE, OFFSET, TIME_SHIFT, ...).
    pub options: Vec<(u16, Vec<u8>)>,
    /// Buffers beside the top one; [`super::Writer::instance`] goes on to each in turn.
    pub instances: Vec<Instance>,
}

impl Default for Header {
    /// Version 6, 64-bit little-endian, 4 KiB pages, clock `mono`; no formats, names nor CPUs.
    fn default() -> Self {
        Self {
            version: Version::V6,
            compression: Compression::None,
            encoding: Encoding::default(),
            page_size: 4096,
            header_page: String::new(),
            header_event: String::new(),
            ftrace_formats: Vec::new(),
            formats: Vec::new(),
            kallsyms: Vec::new(),
            printk: Vec::new(),
            cmdlines: Vec::new(),
            cpus: 0,
            clock: "mono".into(),
            uname: None,
            companion: None,
            cpustat: Vec::new(),
            options: Vec::new(),
            instances: Vec::new(),
        }
    }
}

impl Header {
    /// Tells how many ticks the clock counts a second, in the way in which trace-cmd tells it of the TSC.
    pub(crate) fn tell_ticks(&mut self, hz: NonZeroU64) {
        // The largest factor that has 32 bits is the most exact.
        let factor = |shift: u32| {
            let factor =
                ((1_000_000_000_u128 << shift) + u128::from(hz.get() / 2)) / u128::from(hz.get());
            u32::try_from(factor).ok().map(|factor| (factor, shift))
        };
        let (factor, shift) = (0..32).rev().find_map(factor).unwrap_or((u32::MAX, 0));
        let word = |number: u32| match self.encoding.big_endian {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        let mut option = [word(factor), word(shift)].concat();
        option.extend([0; 8]);
        self.options.retain(|(id, _)| *id != TSC2NSEC);
        self.options.push((TSC2NSEC, option));
        self.clock = "tsc2nsec".into();
        if let Some(companion) = &mut self.companion {
            // They are told in ticks.
            (companion.span, companion.at_start, companion.trigger) = (None, None, None);
        }
    }

    /// Text of `header_page` for these pages.
    pub(crate) fn header_page_text(&self) -> String {
        let long = u32::from(self.encoding.long);
        let start = 8 + long;
        let size = self.page_size.saturating_sub(start);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{start};\tsize:{size};\tsigned:0;\n"
        )
    }
}

/// Text of `header_event`: how a record's head is packed.
pub(crate) const HEADER_EVENT: &str = "# compressed entry header\n\
    \ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";
