//! An allocator that counts, for tests of what must not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts by thread how often it was asked. A test makes it its
/// `#[global_allocator]`.
pub struct Counting;

/// How often the calling thread has allocated so far, under [`Counting`].
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATED.with(Cell::get)
}

// SAFETY: every call is passed on to the system's allocator as it came; counting allocates nothing,
// since the counter is made at compile time and needs no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to alloc's contract, which is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to dealloc's contract; what it gives back came from System.
        unsafe { System.dealloc(memory, layout) }
    }
}
