//! The numbers of options and sections, shared by reader and writer.

/// Ends a list of options.
pub(crate) const DONE: u16 = 0;
/// Text added to every time stamp, microseconds (`0x...` or decimal).
pub(crate) const DATE: u16 = 1;
/// Statistics of one CPU's buffer, as `per_cpu/cpuN/stats` prints them.
pub(crate) const CPUSTAT: u16 = 2;
/// A buffer: its name and (in version 7) its clock and CPU table.
pub(crate) const BUFFER: u16 = 3;
/// The clocks, with the one in use in brackets.
pub(crate) const TRACECLOCK: u16 = 4;
/// `uname` of the traced machine.
pub(crate) const UNAME: u16 = 5;
/// How many CPUs there are; may exceed the head's count.
pub(crate) const CPUCOUNT: u16 = 8;
/// The program that wrote the file.
pub(crate) const VERSION: u16 = 9;
/// Text added to every time stamp, nanoseconds.
pub(crate) const OFFSET: u16 = 7;
/// Corrections of a guest's clock towards its host's.
pub(crate) const TIME_SHIFT: u16 = 12;
/// Factors from TSC ticks to nanoseconds.
pub(crate) const TSC2NSEC: u16 = 14;

/// Section: strings that describe other sections.
pub(crate) const SECTION_STRINGS: u16 = 15;
/// Section and option: formats of page and record head.
pub(crate) const HEADER_INFO: u16 = 16;
/// Section and option: formats of ftrace's own events.
pub(crate) const FTRACE_EVENTS: u16 = 17;
/// Section and option: formats of tracepoints, by system.
pub(crate) const EVENT_FORMATS: u16 = 18;
/// Section and option: kernel symbols.
pub(crate) const KALLSYMS: u16 = 19;
/// Section and option: formats of `trace_printk`.
pub(crate) const PRINTK: u16 = 20;
/// Section and option: names of tasks.
pub(crate) const CMDLINES: u16 = 21;
/// Option: a buffer of text; section of one.
pub(crate) const BUFFER_TEXT: u16 = 22;

/// Ours: what [`super::Companion`] holds, as JSON. Far from the numbers that trace-cmd counts up.
pub(crate) const COMPANION: u16 = 0x5cd1;

/// Flag of a version 7 section: its content is compressed.
pub(crate) const FLAG_COMPRESSED: u16 = 1;
