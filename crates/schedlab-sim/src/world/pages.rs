//! The pages of a pipe (Linux 6.1, `pipe_write` and `pipe_read` in fs/pipe.c): a ring in place, since a queue on the
//! heap took a sixth more instructions for each message (callgrind).

pub(super) const PAGE: u32 = 4_096;
/// The number of pages in a pipe (`PIPE_DEF_BUFFERS`).
const SLOTS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Bytes of the page that were written.
    end: u32,
    unread: u32,
}

/// Pages with bytes that were not read, the first first.
#[derive(Debug, Default)]
pub(super) struct Pages {
    ring: [Page; SLOTS],
    first: usize,
    count: usize,
}

impl Pages {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count >= SLOTS
    }

    /// Whether odd bytes go into the last page, where they fit whole.
    #[inline]
    pub(super) fn last_takes(&self, odd: u32) -> bool {
        let last = &self.ring[(self.first + self.count + SLOTS - 1) % SLOTS];
        self.count > 0 && odd > 0 && last.end + odd <= PAGE
    }

    /// Writes as many of `bytes` as there is room for; how many that are. A writer that has `waited` begins a page.
    #[inline]
    pub(super) fn write(&mut self, bytes: u32, waited: bool) -> u32 {
        let mut left = bytes;
        let odd = left % PAGE;
        if !waited && self.last_takes(odd) {
            let last = &mut self.ring[(self.first + self.count + SLOTS - 1) % SLOTS];
            last.end += odd;
            last.unread += odd;
            left -= odd;
        }
        while left > 0 && !self.is_full() {
            let part = left.min(PAGE);
            self.ring[(self.first + self.count) % SLOTS] = Page { end: part, unread: part };
            self.count += 1;
            left -= part;
        }
        bytes - left
    }

    /// Reads up to `bytes`; how many that are.
    #[inline]
    pub(super) fn read(&mut self, bytes: u32) -> u32 {
        let mut left = bytes;
        while left > 0 && self.count > 0 {
            let first = &mut self.ring[self.first];
            let taken = left.min(first.unread);
            first.unread -= taken;
            left -= taken;
            if first.unread == 0 {
                self.first = (self.first + 1) % SLOTS;
                self.count -= 1;
            }
        }
        bytes - left
    }
}
