//! I/O ports of a PC: a guest reaches devices of its virtual machine through them without a driver.

use std::io;
use std::marker::PhantomData;

/// The right of the calling thread to use some ports. It belongs to the thread, so it stays with it.
#[derive(Debug)]
pub struct Ports(PhantomData<*const ()>);

impl Ports {
    /// Asks for ranges of ports: the first port of each and how many.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_RAWIO` or in a locked kernel; `Unsupported` on machines without ports.
    #[cfg(target_arch = "x86_64")]
    pub fn open(ranges: &[(u16, u16)]) -> io::Result<Self> {
        for &(first, count) in ranges {
            // SAFETY: the call changes which ports this thread may use, and no memory.
            let refused = unsafe { libc::ioperm(first.into(), count.into(), 1) } != 0;
            if refused {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self(PhantomData))
    }

    /// As on x86-64, where there are ports.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn open(_ranges: &[(u16, u16)]) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a byte to a port. The virtual machine may stop there and go on from a copy.
    pub fn write_u8(&self, port: u16, value: u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a port that this thread may not use raises a signal; devices of a virtual machine
        // that we open do not write to memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") port, in("al") value, options(nostack));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, value);
    }

    /// Writes two bytes to a port at once.
    pub fn write_u16(&self, port: u16, value: u16) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `write_u8`.
        unsafe {
            std::arch::asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, value);
    }

    /// Writes bytes to a port, one after another.
    pub fn write_all(&self, port: u16, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `write_u8`; the instruction reads as many bytes as the slice has, upwards.
        unsafe {
            std::arch::asm!(
                "rep outsb", in("dx") port,
                inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _, options(nostack),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, bytes);
    }

    /// Reads a byte from a port.
    #[must_use]
    pub fn read_u8(&self, port: u16) -> u8 {
        #[cfg(target_arch = "x86_64")]
        {
            let value: u8;
            // SAFETY: as in `write_u8`.
            unsafe {
                std::arch::asm!("in al, dx", in("dx") port, out("al") value, options(nostack));
            }
            value
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = port;
            0
        }
    }
}
