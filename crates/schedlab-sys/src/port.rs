//! I/O ports of a PC: a guest reaches devices of its virtual machine through them without a driver.
//!
//! The ports are listed here, since a device behind another one may write to memory.

use std::io;
use std::marker::PhantomData;

/// A port of a device that QEMU gives to a guest. None of them writes to the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Port {
    /// `ib700`, a watchdog: stops the virtual machine some seconds after it got a byte.
    Watchdog = 0x443,
    /// `pvpanic`: stops the virtual machine at once.
    Panic = 0x505,
    /// fw_cfg: which item is read, two bytes (docs/specs/fw_cfg.rst of QEMU).
    Select = 0x510,
    /// fw_cfg: the next byte of the item.
    Data = 0x511,
    /// `isa-debugcon`: bytes for the host.
    Console = 0xe9,
}

#[cfg(target_arch = "x86_64")]
impl Port {
    const ALL: [Self; 5] = [Self::Watchdog, Self::Panic, Self::Select, Self::Data, Self::Console];
}

/// The right of the calling thread to use the ports. It belongs to the thread, so it stays with it.
#[derive(Debug)]
pub struct Ports(PhantomData<*const ()>);

impl Ports {
    /// Asks for all ports.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_RAWIO` or in a locked kernel; `Unsupported` on machines without ports.
    #[cfg(target_arch = "x86_64")]
    pub fn open() -> io::Result<Self> {
        for port in Port::ALL {
            // SAFETY: the call changes which ports this thread may use, and no memory.
            let refused = unsafe { libc::ioperm(port as libc::c_ulong, 1, 1) } != 0;
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
    pub fn open() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a byte to a port. The virtual machine may stop there and go on from a copy.
    pub fn write_u8(&self, port: Port, value: u8) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the thread may use the port, and its device does not write to memory.
        unsafe {
            std::arch::asm!("out dx, al", in("dx") port as u16, in("al") value, options(nostack));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, value);
    }

    /// Writes two bytes to a port at once.
    pub fn write_u16(&self, port: Port, value: u16) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `write_u8`.
        unsafe {
            std::arch::asm!("out dx, ax", in("dx") port as u16, in("ax") value, options(nostack));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, value);
    }

    /// Writes bytes to a port, one after another.
    pub fn write_all(&self, port: Port, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `write_u8`; the instruction reads as many bytes as the slice has, upwards.
        unsafe {
            std::arch::asm!(
                "rep outsb", in("dx") port as u16,
                inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _, options(nostack),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (port, bytes);
    }

    #[must_use]
    pub fn read_u8(&self, port: Port) -> u8 {
        #[cfg(target_arch = "x86_64")]
        {
            let value: u8;
            // SAFETY: as in `write_u8`.
            unsafe {
                std::arch::asm!("in al, dx", in("dx") port as u16, out("al") value, options(nostack));
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
