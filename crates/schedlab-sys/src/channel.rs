//! Byte channels between tasks: pipes, socket pairs, connections over the loopback.

use std::io;
use std::os::fd::OwnedFd;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A pipe, made by `pipe(2)`.
    Pipe,
    /// A pair of UNIX stream sockets.
    SocketPair,
    /// A TCP connection over 127.0.0.1, a listener on a free port for each.
    Inet,
    /// A UDP socket that sends to another over 127.0.0.1.
    Udp,
    /// An eventfd: eight bytes are a wakeup.
    EventFd,
}

/// A channel's two ends: (to read from, to write to).
///
/// # Errors
/// `EMFILE` at the limit of open files, and what the network refuses.
pub fn open(transport: Transport) -> io::Result<(OwnedFd, OwnedFd)> {
    match transport {
        Transport::Pipe => {
            let (read, write) = io::pipe()?;
            Ok((read.into(), write.into()))
        }
        Transport::SocketPair => {
            let (a, b) = std::os::unix::net::UnixStream::pair()?;
            Ok((a.into(), b.into()))
        }
        Transport::Inet => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let write = std::net::TcpStream::connect(listener.local_addr()?)?;
            let (read, _) = listener.accept()?;
            Ok((read.into(), write.into()))
        }
        Transport::Udp => {
            let read = std::net::UdpSocket::bind("127.0.0.1:0")?;
            let write = std::net::UdpSocket::bind("127.0.0.1:0")?;
            write.connect(read.local_addr()?)?;
            Ok((read.into(), write.into()))
        }
        Transport::EventFd => {
            use rustix::event::{EventfdFlags, eventfd};
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
            Ok((fd.try_clone()?, fd))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn what_is_written_to_any_channel_can_be_read_from_it() {
        use Transport::*;
        for transport in [Pipe, SocketPair, Inet, Udp, EventFd] {
            let (read, write) = open(transport).unwrap();
            std::fs::File::from(write).write_all(&1u64.to_ne_bytes()).unwrap();
            let mut bytes = [0; 8];
            std::fs::File::from(read).read_exact(&mut bytes).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), 1, "{transport:?}");
        }
    }
}
