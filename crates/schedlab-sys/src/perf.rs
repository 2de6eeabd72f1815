//! Perf events: opening them, and reading their rings.
//!
//! The kernel writes records into a ring that both sides map. It publishes how far it has written
//! (`data_head`, to be read with acquire) and overwrites only what the reader has released
//! (`data_tail`, to be written with release). The bytes between the two are ours to copy.
//!
//! Cost: a sched event is 40 to 96 bytes in the ring; a drain is at most two `write` calls and copies
//! once, from the ring into the page cache.

mod count;

use crate::capability::{self, Need};
pub use count::Counter;
use rustix::ioctl::{Opcode, opcode};
use schedlab_model::{Cpu, Pid};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The event that is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tracepoint by the number in its `id` file.
    Tracepoint(u64),
    /// The same; each sample also holds the call stack in the kernel.
    WithStack(u64),
    /// The same with stacks of no length, in a ring that [`Self::WithStack`] shares: samples of a ring are laid out alike.
    WithoutStack(u64),
    /// The same as a tracepoint; each sample also holds the call stack of the program. Tells of mappings and processes too.
    WithUserStack(u64, UserStack),
    /// The same with stacks of no length, in a ring that [`Self::WithUserStack`] shares.
    BesideUserStack(u64),
    /// No samples, only the records of created, ended and renamed tasks.
    Tasks,
}

/// Which parts of the call stack a sample holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserStack {
    /// Whether the functions of the kernel are in it.
    pub kernel: bool,
    /// Bytes of the program's stack that are copied, a multiple of 8 up to [`Self::COPY_MAX`], with
    /// [`Self::REGISTERS`] registers. With 0 the kernel follows frame pointers.
    pub copy: u32,
}

impl UserStack {
    /// A record has at most 64 KiB.
    pub const COPY_MAX: u32 = 60 << 10;
    /// The registers that unwinding takes, by their numbers in the kernel's `asm/perf_regs.h`.
    #[cfg(target_arch = "x86_64")]
    const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
    #[cfg(target_arch = "aarch64")]
    const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const MASK: u64 = 0;
    /// How many registers a sample holds, in this order: on x86-64 the frame pointer, the stack pointer and the address;
    /// on AArch64 the frame pointer, the return address, the stack pointer and the address. 0: no stack can be copied.
    pub const REGISTERS: usize = Self::MASK.count_ones() as usize;
}

/// Record types that a ring of ours can hold.
pub mod record {
    /// `PERF_RECORD_MMAP`, which older kernels write in place of [`MMAP2`].
    pub const MMAP: u32 = 1;
    /// The type of a record of losses (`PERF_RECORD_LOST`): id, count.
    pub const LOST: u32 = 2;
    /// `PERF_RECORD_COMM`: pid, tid, name.
    pub const COMM: u32 = 3;
    /// `PERF_RECORD_FORK`: pid, parent's pid, tid, parent's tid, time.
    pub const FORK: u32 = 7;
    /// `PERF_RECORD_SAMPLE`: process and thread (with [`super::Source::WithUserStack`] and
    /// [`super::Source::BesideUserStack`]); time; addresses of the stack behind their number (not for
    /// [`super::Source::Tracepoint`]); raw size, raw bytes; registers and the stack's copy, if [`super::UserStack::copy`] is
    /// not 0.
    pub const SAMPLE: u32 = 9;
    /// `PERF_RECORD_MMAP2`: a process mapped a part of a file to run it.
    pub const MMAP2: u32 = 10;
    /// Length of the header that every record starts with: type u32, misc u16, size u16.
    pub const HEADER: usize = 8;
}

/// The kernel's `struct perf_event_attr` up to Linux 5.13 (128 bytes); what older kernels do not
/// know is zero, which they accept.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
    aux_sample_size: u32,
    reserved2: u32,
    sig_data: u64,
}
const _: () = assert!(size_of::<Attr>() == 128);

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const SOFTWARE_DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
const FORMAT_RUNNING: u64 = 1 << 1;
const FORMAT_LOST: u64 = 1 << 4;
const FLAG_DISABLED: u64 = 1 << 0;
const FLAG_MMAP: u64 = 1 << 8;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_NO_KERNEL_STACK: u64 = 1 << 21;
const FLAG_NO_USER_STACK: u64 = 1 << 22;
const FLAG_MMAP2: u64 = 1 << 23;
const FLAG_COMM_EXEC: u64 = 1 << 24;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_WRITE_BACKWARD: u64 = 1 << 27;
const FLAG_BUILD_ID: u64 = 1 << 34;
/// The records of mappings and processes.
const FLAGS_BESIDE: u64 =
    FLAG_MMAP | FLAG_MMAP2 | FLAG_COMM | FLAG_COMM_EXEC | FLAG_TASK | FLAG_BUILD_ID;
const OPEN_CLOEXEC: libc::c_ulong = 8;
/// The requests' numbers are packed differently on some architectures.
const IOC_ENABLE: Opcode = opcode::none(b'$', 0);
const IOC_DISABLE: Opcode = opcode::none(b'$', 1);
const IOC_SET_OUTPUT: Opcode = opcode::none(b'$', 5);
const IOC_SET_FILTER: Opcode = opcode::write::<*mut libc::c_char>(b'$', 6);

/// An open event of one CPU, disabled until [`Event::enable`].
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    counts_lost: bool,
    /// Whether the kernel writes its ring backwards.
    is_backward: bool,
    /// Whether its records have a ring: one of its own, or that of another event.
    has_ring: bool,
}

impl Event {
    /// Opens `source` for all tasks on `cpu`, sampling every occurrence with its `CLOCK_MONOTONIC`
    /// time and raw bytes. `wakeup_bytes`: how full the ring gets before a poll wakes.
    /// `is_backward`: the kernel writes its ring backwards, for an [`OverwriteRing`].
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without the right to observe (see `perf_event_paranoid` and
    /// `CAP_PERFMON`), `ENODEV` when the CPU is offline, `EMFILE` with too few descriptors.
    pub fn open(
        source: Source,
        cpu: Cpu,
        wakeup_bytes: u32,
        is_backward: bool,
    ) -> io::Result<Self> {
        let (kind, config, extra) = match source {
            Source::Tracepoint(id) => (TYPE_TRACEPOINT, id, 0),
            Source::WithStack(id) => (TYPE_TRACEPOINT, id, FLAG_NO_USER_STACK),
            Source::WithoutStack(id) | Source::BesideUserStack(id) => {
                (TYPE_TRACEPOINT, id, FLAG_NO_USER_STACK | FLAG_NO_KERNEL_STACK)
            }
            Source::WithUserStack(id, UserStack { kernel, copy }) => {
                let kernel = if kernel { 0 } else { FLAG_NO_KERNEL_STACK };
                let user = if copy == 0 { 0 } else { FLAG_NO_USER_STACK };
                (TYPE_TRACEPOINT, id, kernel | user | FLAGS_BESIDE)
            }
            Source::Tasks => (TYPE_SOFTWARE, SOFTWARE_DUMMY, FLAG_COMM | FLAG_TASK),
        };
        let (stack, copy) = match source {
            Source::WithStack(_) | Source::WithoutStack(_) => (SAMPLE_CALLCHAIN, 0),
            Source::WithUserStack(_, UserStack { copy: copy @ 1.., .. }) => {
                (SAMPLE_TID | SAMPLE_CALLCHAIN | SAMPLE_REGS_USER | SAMPLE_STACK_USER, copy)
            }
            Source::WithUserStack(..) | Source::BesideUserStack(_) => {
                (SAMPLE_TID | SAMPLE_CALLCHAIN, 0)
            }
            Source::Tracepoint(_) | Source::Tasks => (0, 0),
        };
        let backward = if is_backward { FLAG_WRITE_BACKWARD } else { 0 };
        let attr = Attr {
            kind,
            size: 128,
            config,
            sample_period: 1,
            // The ring tells the CPU, the raw bytes the event and the task: time is all that is missing.
            sample_type: SAMPLE_TIME | SAMPLE_RAW | stack,
            read_format: FORMAT_RUNNING | FORMAT_LOST,
            flags: FLAG_DISABLED
                | FLAG_WATERMARK
                | FLAG_SAMPLE_ID_ALL
                | FLAG_USE_CLOCKID
                | extra
                | backward,
            wakeup: wakeup_bytes,
            sample_regs_user: if copy == 0 { 0 } else { UserStack::MASK },
            sample_stack_user: copy,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        let event = |fd, counts_lost| Self { fd, counts_lost, is_backward, has_ring: false };
        match open(&attr, cpu) {
            Ok(fd) => Ok(event(fd, true)),
            // Before Linux 6.0 an event cannot be asked for its losses; the ring still tells them. Before 5.12 mappings
            // tell no build ids.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let flags = attr.flags & !FLAG_BUILD_ID;
                let fd = open(&Attr { read_format: FORMAT_RUNNING, flags, ..attr }, cpu)?;
                Ok(event(fd, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends this event's records to the ring of `other` (same CPU and clock).
    ///
    /// # Errors
    /// `EINVAL` when the two cannot share a ring.
    pub fn redirect(&mut self, other: &Self) -> io::Result<()> {
        // SAFETY: the request takes a descriptor.
        unsafe { ioctl(&self.fd, IOC_SET_OUTPUT, other.fd.as_raw_fd() as libc::c_ulong) }?;
        self.has_ring = true;
        Ok(())
    }

    /// Passes only occurrences for which the kernel's filter expression holds (`prev_pid == 7`).
    ///
    /// # Errors
    /// `EINVAL` when the kernel cannot parse it for this tracepoint.
    pub fn filter(&self, expression: &std::ffi::CStr) -> io::Result<()> {
        // SAFETY: the request takes a string that ends in 0, and copies it.
        unsafe { ioctl(&self.fd, IOC_SET_FILTER, expression.as_ptr() as libc::c_ulong) }
    }

    /// Starts the event: it writes records from now on.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: the request takes a number.
        unsafe { ioctl(&self.fd, IOC_ENABLE, 0) }
    }

    /// Stops the event; records that are in the ring stay.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: the request takes a number.
        unsafe { ioctl(&self.fd, IOC_DISABLE, 0) }
    }

    /// Number of records that did not fit into the ring so far; `None` if the kernel does not count
    /// them.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        read_word(&self.fd, 2).filter(|_| self.counts_lost)
    }
}

/// A word that reading an event gives: its count, the time in which it counted, how much was lost.
fn read_word(fd: &OwnedFd, place: usize) -> Option<u64> {
    let mut bytes = [0u8; 24];
    let length = rustix::io::read(fd, &mut bytes).ok()?;
    let word = bytes[..length].as_chunks().0.get(place)?;
    Some(u64::from_ne_bytes(*word))
}

fn open(attr: &Attr, cpu: Cpu) -> io::Result<OwnedFd> {
    capability::with(Need::PerfEvents, || open_in_force(attr, cpu))
}

fn open_in_force(attr: &Attr, cpu: Cpu) -> io::Result<OwnedFd> {
    let every_task: libc::pid_t = Pid(-1).0;
    // SAFETY: the kernel reads `size` bytes of `attr`, which is that long; the other arguments are
    // plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            every_task,
            libc::c_int::from(cpu.0),
            -1 as libc::c_int,
            OPEN_CLOEXEC,
        )
    };
    let fd = libc::c_int::try_from(fd).expect("a descriptor is an int");
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `argument` is what `request` takes: a number, a descriptor, or the address of a string that ends in 0.
unsafe fn ioctl(fd: &OwnedFd, request: Opcode, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: as the caller promises.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Offsets in the first page of the mapping (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// The mapped memory of an event's ring, and the event that keeps it alive.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    header: usize,
    /// Bytes of data, a multiple of 8.
    size: usize,
    /// `None` only in tests.
    event: Option<OwnedFd>,
    /// For how long the event had counted at the last look. Time goes on for one that is enabled and has no CPU.
    counted: Option<u64>,
    /// Whether the event was enabled.
    has_started: bool,
}

// SAFETY: nothing else of this process uses the mapping.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference only reads words atomically.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the ring of an event that has none. The kernel respects the tail of a ring that we can write, and writes
    /// over all others.
    fn new(event: &mut Event, bytes: usize, is_overwritten: bool) -> io::Result<Self> {
        if event.has_ring || event.is_backward != is_overwritten {
            let what = "the event has a ring already, or one of the other kind";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let header = rustix::param::page_size();
        let size = bytes.div_ceil(header).max(1).next_power_of_two() * header;
        let fd = event.fd.try_clone()?;
        let map = || map(Some(event.fd.as_fd()), header + size, is_overwritten);
        let base = capability::with(Need::PerfEvents, map)?;
        event.has_ring = true;
        Ok(Self { base, header, size, event: Some(fd), counted: None, has_started: false })
    }

    /// The word at an offset, a multiple of 8.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.header + self.size, "it is mapped");
        // SAFETY: the offset lies within the mapping.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the word is aligned, and the mapping lives as long as `self`. The kernel may write to it meanwhile,
        // also in words or larger parts.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }

    /// Bytes of the data from a position on, which may not wrap.
    ///
    /// # Safety
    /// The kernel writes to none of them while the slice lives.
    unsafe fn bytes(&self, position: u64, len: usize) -> &[u8] {
        let start = self.place(position);
        assert!(len <= self.size - start, "a slice does not wrap");
        // SAFETY: `header + start` lies within the mapping.
        let at = unsafe { self.base.as_ptr().add(self.header + start) };
        // SAFETY: the range lies within the mapping, and nobody writes to it, as the caller promises.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    fn place(&self, position: u64) -> usize {
        usize::try_from(position % self.size as u64).expect("below the ring's size")
    }

    fn has_ended(&mut self) -> bool {
        let counted = self.event.as_ref().and_then(|event| read_word(event, 1));
        let counted = counted.unwrap_or_default();
        let before = self.counted.replace(counted);
        before == Some(counted) && (counted > 0 || self.has_started)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let len = self.header + self.size;
        // SAFETY: base and length are those of our own mapping, which nothing points into any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), len) };
    }
}

/// The ring of an event, and of those redirected to it. The kernel keeps what was not drained, and drops new records
/// when the ring is full.
#[derive(Debug)]
pub struct Ring(Mapping);

impl Ring {
    /// Maps a ring of `bytes`, rounded up to a power of two pages, for an event without a ring.
    ///
    /// # Errors
    /// `EPERM` when more memory would be locked than `perf_event_mlock_kb` and `RLIMIT_MEMLOCK`
    /// allow; `ENOMEM`. An event that is backward, or has a ring.
    pub fn map(event: &mut Event, bytes: usize) -> io::Result<Self> {
        Mapping::new(event, bytes, false).map(Self)
    }

    /// Bytes of data that the ring holds at most.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.0.size
    }

    /// How many bytes wait to be read.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let head = self.0.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.0.word(DATA_TAIL).load(Ordering::Relaxed);
        usize::try_from(head.wrapping_sub(tail)).unwrap_or(self.0.size).min(self.0.size)
    }

    /// Notes that the event was enabled: if it does not count from now on, it has ended. One that was opened while its CPU
    /// went out of use never begins.
    pub const fn start(&mut self) {
        self.0.has_started = true;
    }

    /// Whether the event has ended before the last such look: the kernel ends it when its CPU goes out of use, for good.
    /// One that was stopped looks the same. Interrupts its CPU.
    pub fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Hands all waiting bytes to `sink`, in one or (at the wrap) two pieces, then releases them.
    /// Pieces do not respect record borders; the whole does. Returns how many bytes there were.
    ///
    /// # Errors
    /// What `sink` returns; the bytes then stay in the ring.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<usize> {
        let waiting = self.waiting();
        if waiting == 0 {
            return Ok(0);
        }
        let tail = self.0.word(DATA_TAIL).load(Ordering::Relaxed);
        let first = waiting.min(self.0.size - self.0.place(tail));
        // SAFETY: the kernel does not write between tail and head. Only this value moves the tail: no event has two
        // rings, and this function has the value for itself.
        sink(unsafe { self.0.bytes(tail, first) })?;
        if first < waiting {
            // SAFETY: as above.
            sink(unsafe { self.0.bytes(tail.wrapping_add(first as u64), waiting - first) })?;
        }
        let tail = tail.wrapping_add(waiting as u64);
        self.0.word(DATA_TAIL).store(tail, Ordering::Release);
        Ok(waiting)
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_ref().expect("only tests map a ring without an event").as_fd()
    }
}

/// The ring of a backward event, and of those redirected to it. Nobody drains it: the kernel writes over the oldest
/// records.
#[derive(Debug)]
pub struct OverwriteRing(Mapping);

impl OverwriteRing {
    /// Maps a ring of `bytes`, rounded up to a power of two pages, for a backward event without a ring.
    ///
    /// # Errors
    /// As [`Ring::map`]; an event that is not backward.
    pub fn map(event: &mut Event, bytes: usize) -> io::Result<Self> {
        Mapping::new(event, bytes, true).map(Self)
    }

    /// As [`Ring::has_ended`].
    pub fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Copies the ring: newest record first, as far as records are whole. Disable the events before: records that the
    /// kernel writes meanwhile may be torn.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let head = self.0.word(DATA_HEAD).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // Records are multiples of 8 bytes long.
        let first = self.0.place(head) & !7;
        let words = (first..self.0.size).chain(0..first).step_by(8);
        let mut all = Vec::with_capacity(self.0.size);
        for at in words {
            all.extend(self.0.word(self.0.header + at).load(Ordering::Relaxed).to_ne_bytes());
        }
        // The head counts down from zero, so its negation is what was ever written.
        let written = usize::try_from(head.wrapping_neg()).unwrap_or(usize::MAX);
        all.truncate(written.min(self.0.size));
        all
    }
}

fn map(fd: Option<BorrowedFd<'_>>, len: usize, overwrite: bool) -> io::Result<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
    let write = if overwrite { ProtFlags::empty() } else { ProtFlags::WRITE };
    let access = ProtFlags::READ | write;
    let at = match fd {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        Some(fd) => unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0) },
        // SAFETY: as above.
        None => unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) },
    }?;
    Ok(NonNull::new(at.cast()).expect("a successful mapping is not at null"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// The memory of a ring without an event: the test plays the kernel.
    fn fake(size: usize) -> Mapping {
        let header = rustix::param::page_size();
        Mapping {
            base: map(None, header + size, false).unwrap(),
            header,
            size,
            event: None,
            counted: None,
            has_started: false,
        }
    }

    fn write(ring: &Mapping, position: u64, bytes: &[u8]) {
        for (at, byte) in (position..).zip(bytes) {
            let index = ring.header + ring.place(at);
            // SAFETY: the index lies within the mapping.
            let at = unsafe { ring.base.as_ptr().add(index) };
            // SAFETY: the test's mapping is writable and nobody else's.
            unsafe { at.write(*byte) };
        }
    }

    fn drained(ring: &mut Ring) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        ring.drain(&mut |piece| {
            pieces.push(piece.to_vec());
            Ok(())
        })
        .unwrap();
        pieces
    }

    #[test]
    fn what_wraps_comes_in_two_pieces_and_is_released() {
        let mut ring = Ring(fake(4096));
        ring.0.word(DATA_HEAD).store(4094, Ordering::Release);
        assert_eq!(drained(&mut ring).concat().len(), 4094);
        write(&ring.0, 4094, b"abcdef");
        ring.0.word(DATA_HEAD).store(4100, Ordering::Release);
        assert_eq!(drained(&mut ring), [b"ab".to_vec(), b"cdef".to_vec()]);
        assert_eq!(ring.0.word(DATA_TAIL).load(Ordering::Acquire), 4100);
        assert!(drained(&mut ring).is_empty());
    }

    #[test]
    fn a_sink_that_fails_leaves_the_bytes() {
        let mut ring = Ring(fake(4096));
        ring.0.word(DATA_HEAD).store(16, Ordering::Release);
        assert!(ring.drain(&mut |_| Err(io::Error::other("disk full"))).is_err());
        assert_eq!(ring.waiting(), 16);
    }

    #[test]
    fn a_backward_ring_is_read_from_its_head() {
        let ring = OverwriteRing(fake(4096));
        let head = 0u64.wrapping_sub(4104);
        write(&ring.0, head % 4096, b"newest");
        ring.0.word(DATA_HEAD).store(head, Ordering::Release);
        let bytes = ring.snapshot();
        assert_eq!((&bytes[..6], bytes.len()), (b"newest".as_slice(), 4096));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(Event::open(Source::Tasks, Cpu(9_999), 1, false).is_err());
    }

    /// An event of this machine; `None` where the test may not observe.
    fn event(is_backward: bool) -> Option<Event> {
        match Event::open(Source::Tasks, Cpu(0), 1, is_backward) {
            Ok(event) => Some(event),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "MISSING: perf events: {error}");
                None
            }
        }
    }

    #[test]
    fn an_event_has_one_ring_of_its_own_kind() {
        let (Some(mut forward), Some(mut backward)) = (event(false), event(true)) else { return };
        let refused = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        refused(OverwriteRing::map(&mut forward, 4096).unwrap_err());
        refused(Ring::map(&mut backward, 4096).unwrap_err());
        let ring = Ring::map(&mut forward, 4096).unwrap();
        refused(Ring::map(&mut forward, 4096).unwrap_err());
        drop(ring);
        refused(Ring::map(&mut forward, 4096).unwrap_err());
    }

    #[test]
    fn an_event_that_shares_a_ring_cannot_map_it_again() {
        let (Some(mut leader), Some(mut other)) = (event(false), event(false)) else { return };
        let _ring = Ring::map(&mut leader, 4096).unwrap();
        other.redirect(&leader).unwrap();
        assert!(Ring::map(&mut other, 4096).is_err());
    }

    #[test]
    fn records_of_new_tasks_come_by_both_kinds_of_rings() {
        let (Some(mut forward), Some(mut backward)) = (event(false), event(true)) else { return };
        let mut ring = Ring::map(&mut forward, 1 << 16).unwrap();
        let overwritten = OverwriteRing::map(&mut backward, 4096).unwrap();
        let began = std::time::Instant::now();
        let is_written = |ring: &OverwriteRing| !ring.snapshot().is_empty();
        forward.enable().unwrap();
        backward.enable().unwrap();
        // The events are those of CPU 0 alone.
        while ring.waiting() == 0 || !is_written(&overwritten) {
            assert!(began.elapsed().as_secs() < 60, "no task began on CPU 0");
            let body = || crate::sched::set_affinity(Pid(0), &[Cpu(0)].into_iter().collect());
            let task = std::thread::Builder::new().spawn(move || body().unwrap());
            task.unwrap().join().unwrap();
        }
        backward.disable().unwrap();
        let newest = overwritten.snapshot();
        let size = usize::from(u16::from_ne_bytes([newest[6], newest[7]]));
        assert!(size >= record::HEADER && size <= newest.len(), "{size} of {}", newest.len());
        assert!(drained(&mut ring).concat().len() >= record::HEADER);
    }
}
