//! Executors in shared libraries: loading one, and calling its one C function.
//!
//! `int schedlab_execute(uint32_t workers, uint32_t jobs, const uint32_t *begin, const uint32_t
//! *successors, const uint32_t *waits, void (*perform)(void *, uint32_t job, uint32_t worker), void *run)`:
//! the successors of job j are `successors[begin[j] .. begin[j + 1]]`, and it waits for `waits[j]` jobs.
//! It calls `perform` once per job, from any thread, and returns when all have ended; 0 is success.
//!
//! A library of version 2 also has `uint32_t schedlab_executor_abi(void)`, which returns the version, and may have
//! `schedlab_execute_at`: the same with `const uint64_t *start_ns` after `waits`, on `CLOCK_MONOTONIC`.

use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

type Perform = unsafe extern "C" fn(*mut c_void, u32, u32);
type Execute = unsafe extern "C" fn(
    u32,
    u32,
    *const u32,
    *const u32,
    *const u32,
    Perform,
    *mut c_void,
) -> c_int;

type ExecuteAt = unsafe extern "C" fn(
    u32,
    u32,
    *const u32,
    *const u32,
    *const u32,
    *const u64,
    Perform,
    *mut c_void,
) -> c_int;
type Abi = unsafe extern "C" fn() -> u32;

/// The newest version of the C ABI; older ones are understood.
pub const ABI: u32 = 2;

/// The graph of a run, as a library reads it: all its indices lie inside its arrays.
#[derive(Debug)]
pub struct Graph {
    begin: Vec<u32>,
    successors: Vec<u32>,
    waits: Vec<u32>,
}

impl Graph {
    /// The graph whose jobs have these successors.
    ///
    /// # Panics
    /// When a successor is not a job, or there are more than 2^32 of either.
    pub fn new<'a>(successors_of: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut begin = vec![0];
        let mut successors = Vec::new();
        for of_job in successors_of {
            successors.extend_from_slice(of_job);
            begin.push(u32::try_from(successors.len()).expect("successors are counted in 32 bits"));
        }
        let mut waits = vec![0; begin.len() - 1];
        for &job in &successors {
            waits[job as usize] += 1;
        }
        Self { begin, successors, waits }
    }

    fn jobs(&self) -> usize {
        self.waits.len()
    }
}

/// A loaded executor. It stays loaded: its threads may outlive any call.
#[derive(Debug)]
pub struct Executor {
    execute: Execute,
    execute_at: Option<ExecuteAt>,
}

/// What is called for each job, with its number and the worker's.
type Job<'a> = &'a (dyn Fn(u32, u32) + Sync);

impl Executor {
    /// Loads the library, and so runs the code of the file. A file in which the name `schedlab_execute` does not stand is
    /// not loaded.
    ///
    /// # Safety
    /// The library keeps the contract above, and what it runs when it is loaded is sound.
    ///
    /// # Errors
    /// When it cannot be loaded, has no function `schedlab_execute`, or speaks a newer version than [`ABI`]; and in a program
    /// whose file has capabilities: the library's code could raise them.
    pub unsafe fn open(file: &Path) -> io::Result<Self> {
        if crate::capability::is_from_file() {
            let what = "the file of this program has capabilities (`setcap`), and a library would run inside it: \
                        use cmd:PROGRAM, or a copy of this program, which has none";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        // Without a slash the loader would look in its own folders.
        let file = file.canonicalize()?;
        let name = CString::new(file.as_os_str().as_bytes())?;
        if !is_executor(&std::fs::read(&file)?) {
            let what = "the file has no function `schedlab_execute`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        // SAFETY: `name` is a string that ends in 0, and the file may be loaded, as the caller promises.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(loader_error());
        }
        // SAFETY: `library` is open, and the name ends in 0.
        let symbol = unsafe { libc::dlsym(library, c"schedlab_execute".as_ptr()) };
        if symbol.is_null() {
            return Err(loader_error());
        }
        // SAFETY: the library promises by the function's name that it has this type.
        let execute = unsafe { std::mem::transmute::<*mut c_void, Execute>(symbol) };
        // SAFETY: `library` is open, and the name ends in 0.
        let abi = unsafe { libc::dlsym(library, c"schedlab_executor_abi".as_ptr()) };
        if !abi.is_null() {
            // SAFETY: the library promises by the function's name that it has this type.
            let abi = unsafe { std::mem::transmute::<*mut c_void, Abi>(abi) };
            // SAFETY: it takes nothing and returns a number.
            let version = unsafe { abi() };
            if !(1..=ABI).contains(&version) {
                let what = format!(
                    "unknown version {version} of the C interface: this schedlab knows 1 to {ABI}"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        // SAFETY: `library` is open, and the name ends in 0.
        let symbol = unsafe { libc::dlsym(library, c"schedlab_execute_at".as_ptr()) };
        // SAFETY: null is `None`, and the library promises the type by the function's name.
        let execute_at = unsafe { std::mem::transmute::<*mut c_void, Option<ExecuteAt>>(symbol) };
        Ok(Self { execute, execute_at })
    }

    /// Whether it can hold jobs back until their start times.
    pub fn knows_start_times(&self) -> bool {
        self.execute_at.is_some()
    }

    /// Runs a graph, each job not before its start time on `CLOCK_MONOTONIC` where such are given; returns the library's
    /// code, 0 for success.
    ///
    /// # Panics
    /// When start times are not as many as jobs, or not known to it.
    pub fn execute(
        &self,
        workers: u32,
        graph: &Graph,
        start_ns: Option<&[u64]>,
        perform: Job<'_>,
    ) -> i32 {
        let jobs = graph.jobs() as u32;
        let mut perform = perform;
        let run: *mut c_void = (&raw mut perform).cast();
        let begin = graph.begin.as_ptr();
        let successors = graph.successors.as_ptr();
        let waits = graph.waits.as_ptr();
        if let Some(start_ns) = start_ns {
            assert_eq!(start_ns.len(), graph.jobs(), "a start time for each job");
            let execute = self.execute_at.expect("the caller has asked whether it knows them");
            let start_ns = start_ns.as_ptr();
            // SAFETY: as below.
            return unsafe {
                execute(workers, jobs, begin, successors, waits, start_ns, call, run)
            };
        }
        // SAFETY: the graph's arrays and `perform` live until the call returns, by when, as it promises,
        // nothing of the library uses them any more.
        unsafe { (self.execute)(workers, jobs, begin, successors, waits, call, run) }
    }
}

/// A panic must not unwind into foreign frames: `extern "C"` ends the process instead.
unsafe extern "C" fn call(run: *mut c_void, job: u32, worker: u32) {
    // SAFETY: the library hands back the pointer that `execute` gave it, which is still alive.
    let perform = unsafe { *run.cast::<Job<'_>>() };
    perform(job, worker);
}

/// Whether the function's name stands in a file, as it does in the table of what a library exports.
fn is_executor(file: &[u8]) -> bool {
    const NAME: &[u8] = b"schedlab_execute\0";
    file.windows(NAME.len()).any(|bytes| bytes == NAME)
}

fn loader_error() -> io::Error {
    // SAFETY: takes nothing, returns a string that ends in 0, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return io::Error::other("the loader gives no reason");
    }
    // SAFETY: not null, so it is such a string.
    let text = unsafe { CStr::from_ptr(text) };
    io::Error::other(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_name_the_function_is_not_loaded() {
        let file = std::env::current_exe().unwrap().with_file_name("no-executor.so");
        std::fs::write(&file, b"\x7fELF\0schedlab_execute_at\0").unwrap();
        // SAFETY: it is not loaded.
        let error = unsafe { Executor::open(&file) }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(is_executor(b"\0schedlab_execute_at\0schedlab_execute\0"));
    }

    #[test]
    fn a_graph_counts_what_each_job_waits_for() {
        let graph = Graph::new([&[1, 2][..], &[2], &[]]);
        assert_eq!(graph.begin, [0, 2, 3, 3]);
        assert_eq!(graph.successors, [1, 2, 2]);
        assert_eq!(graph.waits, [0, 1, 2]);
        let outside = std::panic::catch_unwind(|| Graph::new([&[1][..]]));
        assert!(outside.is_err(), "job 1 of one");
    }
}
