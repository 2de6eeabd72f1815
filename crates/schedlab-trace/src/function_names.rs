//! Who knows the names of functions: a trace of perf holds addresses, and the files that name them lie on a machine.
//!
//! Readers ask through [`FunctionNames`]; this crate opens no file but the trace.

use schedlab_model::Pid;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// The kernel that a trace was recorded on, as far as the trace tells.
#[derive(Clone, Copy, Debug)]
pub struct KernelId<'a> {
    /// What identifies the file's content: the linker's `NT_GNU_BUILD_ID` note, if it is known.
    pub build_id: Option<&'a [u8]>,
    /// Its release, as `uname -r` prints it.
    pub release: Option<&'a str>,
}

/// A file that a process had mapped, as the trace tells it.
#[derive(Clone, Copy, Debug)]
pub struct MappedFile<'a> {
    /// Where the process saw it.
    pub path: &'a Path,
    /// What identifies the file's content: the linker's `NT_GNU_BUILD_ID` note, if it is known.
    pub build_id: Option<&'a [u8]>,
    /// Its device and number on the machine that was recorded: major, minor, inode.
    pub inode: Option<(u32, u32, u64)>,
    /// When the recording was over: a file that changed since is another one.
    pub recorded: Option<SystemTime>,
}

/// Where a function begins, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Where its first instruction is in the file, in bytes.
    pub offset: u64,
    /// Its length in bytes; 0 if the file does not tell.
    pub size: u64,
    /// Its name in the file's table.
    pub name: String,
}

/// Knows the names of functions.
pub trait FunctionNames: fmt::Debug + Send + Sync {
    /// The text of `/proc/kallsyms` of this kernel.
    ///
    /// # Errors
    /// Why there is none, and what can be done: two half sentences.
    fn kernel(&self, kernel: &KernelId<'_>) -> Result<Vec<u8>, (String, String)>;

    /// The functions of this file, in any order; `None` if nobody has this very file.
    fn functions(&self, file: &MappedFile<'_>) -> Option<Vec<Function>>;

    /// The function that a compiler made at an address of a process, while its program ran; `recorded`: when the recording
    /// was over. `None` if nobody knows.
    fn made(
        &self,
        kernel: &KernelId<'_>,
        process: Pid,
        address: u64,
        recorded: Option<SystemTime>,
    ) -> Option<String> {
        let _ = (kernel, process, address, recorded);
        None
    }

    /// A name as in the source.
    fn readable(&self, name: &str) -> String;
}

/// Names for [`crate::Options`]. Two are the same if they are one.
#[derive(Clone, Debug)]
pub struct Names(pub Arc<dyn FunctionNames>);

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Names {}

/// The pid of what all processes share: the kernel's own mappings.
pub(crate) const KERNEL: Pid = Pid(-1);
