//! Structures that begin with their size, so that older and newer programs work with this library.

use std::mem::{MaybeUninit, size_of};

/// A structure of C of which every bit pattern is a value, and whose first member is its size.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize`, and zeros are a value of it, as is whatever C may write there.
pub(crate) unsafe trait Sized {}

/// Copies a structure of the size that it says it has. What it lacks is zero; what this library does not know must be.
///
/// # Safety
/// The pointer is null, or points to as many bytes as the size at its begin says, or to a size that is too small.
pub(crate) unsafe fn read<T: Sized + Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    let bytes = from.cast::<u8>();
    // SAFETY: the structure begins with its size.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size == size_of::<T>() {
        // SAFETY: the caller says that so many bytes are there, and each pattern is a value.
        return Some(unsafe { from.read_unaligned() });
    }
    if size < size_of::<usize>() {
        return None;
    }
    for at in size_of::<T>()..size {
        // SAFETY: the caller says that so many bytes are there.
        let byte = unsafe { bytes.add(at) };
        // SAFETY: as above.
        if unsafe { byte.read() } != 0 {
            return None;
        }
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: both have so many bytes, and are apart.
    unsafe { std::ptr::copy_nonoverlapping(bytes, value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: zeros, and what the caller wrote, are values of the type.
    Some(unsafe { value.assume_init() })
}

/// Fills a structure of the size that it says it has; false for null and for a size that is too small.
///
/// # Safety
/// The pointer is null, or as many bytes may be written as the size at its begin says.
pub(crate) unsafe fn write<T: Sized + Copy>(to: *mut T, mut value: T) -> bool {
    if to.is_null() {
        return false;
    }
    // SAFETY: the structure begins with its size.
    let size = unsafe { to.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() {
        return false;
    }
    // SAFETY: the size is the first member of the type.
    unsafe { (&raw mut value).cast::<usize>().write(size) };
    let known = size.min(size_of::<T>());
    let from = (&raw const value).cast::<u8>();
    // SAFETY: the caller says that so many bytes may be written.
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), known) };
    true
}
