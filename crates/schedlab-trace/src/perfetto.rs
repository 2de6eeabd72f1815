//! Perfetto's protobuf: traces for ui.perfetto.dev and from Android.
//!
//! Only the messages that carry the scheduler are spelt: the field numbers below, from the public
//! `.proto` files of Perfetto (`protos/perfetto/trace`). Everything else is passed over.

mod generic_kernel;
mod native;
mod reader;
mod track_event;
mod writer;

pub(crate) use reader::{PerfettoReader, looks_like};
pub(crate) use writer::PerfettoWriter;

/// Numbers of fields of the message `Trace`.
mod trace {
    pub(super) const PACKET: u32 = 1;
}

/// Numbers of fields of the message `TracePacket`.
mod packet {
    pub(super) const FTRACE_EVENTS: u32 = 1;
    pub(super) const PROCESS_TREE: u32 = 2;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    /// Names that later packets of the same sequence call by number.
    pub(super) const INTERNED_DATA: u32 = 12;
    /// 1: numbers of names begin anew; 2: the packet needs those told before.
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const SYSTEM_INFO: u32 = 45;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const SERVICE_EVENT: u32 = 69;
    pub(super) const MACHINE: u32 = 98;
    pub(super) const GENERIC_TASK_STATE: u32 = 117;
    pub(super) const GENERIC_FREQUENCY: u32 = 118;
    pub(super) const GENERIC_RENAME: u32 = 120;
    pub(super) const GENERIC_PROCESS_TREE: u32 = 122;
}

/// Numbers of fields of `SystemInfo` and of the `Utsname` in it.
mod system {
    pub(super) const UTSNAME: u32 = 1;
    pub(super) const SYSNAME: u32 = 1;
    pub(super) const VERSION: u32 = 2;
    pub(super) const RELEASE: u32 = 3;
}

/// Numbers of fields of the message `FtraceEventBundle`.
mod bundle {
    pub(super) const CPU: u32 = 1;
    pub(super) const EVENT: u32 = 2;
    pub(super) const LOST_EVENTS: u32 = 3;
    pub(super) const COMPACT_SCHED: u32 = 4;
    pub(super) const FTRACE_CLOCK: u32 = 5;
    pub(super) const FTRACE_TIMESTAMP: u32 = 6;
    pub(super) const BOOT_TIMESTAMP: u32 = 7;
    /// What older writers have in place of the next.
    pub(super) const LAST_READ_EVENT: u32 = 9;
    /// From here on the file has all events of the CPU.
    pub(super) const PREVIOUS_END: u32 = 10;
}

/// Numbers of fields of the message `FtraceEventBundle.CompactSched`.
mod compact {
    pub(super) const SWITCH_TIMESTAMP: u32 = 1;
    pub(super) const SWITCH_PREV_STATE: u32 = 2;
    pub(super) const SWITCH_NEXT_PID: u32 = 3;
    pub(super) const SWITCH_NEXT_PRIO: u32 = 4;
    pub(super) const INTERN_TABLE: u32 = 5;
    pub(super) const SWITCH_NEXT_COMM: u32 = 6;
    pub(super) const WAKING_TIMESTAMP: u32 = 7;
    pub(super) const WAKING_PID: u32 = 8;
    pub(super) const WAKING_TARGET_CPU: u32 = 9;
    pub(super) const WAKING_PRIO: u32 = 10;
    pub(super) const WAKING_COMM: u32 = 11;
    pub(super) const WAKING_FLAGS: u32 = 12;
}

/// `FtraceEvent`, and the fields of the events in it.
mod event {
    pub(super) const TIMESTAMP: u32 = 1;
    pub(super) const PID: u32 = 2;
    /// The kernel's flags: in an interrupt or not.
    pub(super) const COMMON_FLAGS: u32 = 5;
    pub(super) const PRINT: u32 = 3;
    pub(super) const SWITCH: u32 = 4;
    pub(super) const WAKEUP: u32 = 17;
    pub(super) const WAKING: u32 = 20;
    pub(super) const WAKEUP_NEW: u32 = 114;
    pub(super) const NEWTASK: u32 = 235;
    pub(super) const RENAME: u32 = 236;
    pub(super) const EXEC: u32 = 237;
    pub(super) const EXIT: u32 = 238;
    pub(super) const FORK: u32 = 239;
    pub(super) const FREE: u32 = 240;
    /// Any tracepoint: its name (1), and fields (2) by name.
    pub(super) const GENERIC: u32 = 327;
    pub(super) const MIGRATE: u32 = 491;
}

/// `FtraceClock`: unset means the boot clock.
const CLOCK_GLOBAL: u64 = 2;
/// The number of the monotonic clock in `BuiltinClock`.
const BUILTIN_MONOTONIC: u64 = 3;
const BUILTIN_BOOTTIME: u64 = 6;
/// The field of `InternedData` with names of places in the kernel.
const KERNEL_SYMBOLS: u32 = 26;
