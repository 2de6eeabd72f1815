//! Files that a user names: under their names there is the old file or the whole new one, never a half.
//!
//! A new file is written in its target's folder, synced, and renamed. It gets the mode of what it replaces. It has no
//! name until it is whole (`O_TMPFILE`), so a kill leaves nothing, or between the last two calls the whole file as
//! `NAME.RANDOM.part`. A file system without nameless files (NFS, FAT) has it under that name meanwhile. What can only
//! be written to (`-`, a pipe, a device) gets all of it at the end.
//!
//! A link is followed where the kernel follows it for `cat` under `fs.protected_symlinks`, also where that is off: in
//! a folder where anybody can plant a link, only if the link belongs to this user or to the folder's owner.

use crate::error::TraceError;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::process::geteuid;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name that stands for the standard output.
const STDOUT: &str = "-";
/// Links that are followed one after the other, as the kernel does.
const LINKS_MAX: usize = 40;
/// How the names of unfinished files end.
const PART: &str = ".part";
/// Bytes of a name that an unfinished file repeats; with what it adds, names stay under 255.
const NAME_MAX: usize = 200;
/// Anybody may write to a folder.
const OTHERS_WRITE: u32 = 0o002;
/// Only the owner of a file in a folder may remove it.
const STICKY: u32 = 0o1000;

/// Unfinished files of this process that have names.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Writes these bytes as the file `to`, in one step for those who look.
///
/// # Errors
/// The file cannot be written. What was there before is untouched.
pub fn write_file(to: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = NewFile::create(to)?;
    file.write_all(bytes.as_ref())?;
    file.keep()
}

/// Writes the file `to` by `write`, which gets another name for it. On an error, nothing stays.
///
/// # Errors
/// Those of `write`, and of [`NewFile`].
pub fn replace<T, E: From<TraceError>>(
    to: &Path,
    write: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let failed = |error| TraceError::io(to, &error);
    let file = NewFile::create(to).map_err(failed)?;
    let written = write(file.path())?;
    file.keep().map_err(failed)?;
    Ok(written)
}

/// A file without a name, for what waits until `to` is written: on the same disk.
///
/// # Errors
/// As [`NewFile::create`].
pub(crate) fn nameless_beside(to: &Path) -> io::Result<File> {
    match Place::of(to)? {
        Place::File(target, _) => tempfile::tempfile_in(folder_of(&target))
            .map_err(|error| cannot_make(&error, folder_of(&target))),
        Place::Stream(_) => nameless(),
    }
}

/// A file in the temporary folder without a name: it goes when it is closed.
pub(crate) fn nameless() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| {
        let what = format!("cannot make a file in the temporary folder: {error}");
        io::Error::new(error.kind(), what)
    })
}

/// Removes what this process has not finished: before it ends in the midst.
pub fn remove_unfinished() {
    for path in unfinished().drain(..) {
        // It may be whole by now, or gone.
        let _ = std::fs::remove_file(path);
    }
}

/// The list of them.
fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is not whole yet. Dropped without [`NewFile::keep`] it goes, and its target is untouched.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    destination: Destination,
}

/// What becomes of the new file when it is whole.
#[derive(Debug)]
enum Destination {
    /// It gets its name.
    To(Named),
    /// Its bytes go there. It has no name.
    Into(Stream),
}

/// A file on its way to a name.
#[derive(Debug)]
struct Named {
    /// Its name meanwhile, if it needs one.
    part: Option<Part>,
    target: PathBuf,
    /// Of what it replaces.
    old: Option<Rights>,
}

/// To whom a file belongs, and what its mode allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    user: u32,
    group: u32,
    mode: u32,
}

impl Rights {
    fn of(meta: &Metadata) -> Self {
        Self { user: meta.uid(), group: meta.gid(), mode: meta.mode() }
    }
}

impl Named {
    fn finish(self, file: &File) -> io::Result<()> {
        if let Some(old) = self.old {
            be_as(file, old, folder_of(&self.target))?;
        }
        synced(file)?;
        match self.part {
            Some(part) => part.become_file(&self.target),
            None => link(file, &self.target),
        }
    }
}

/// The name of an unfinished file. The file goes with it, unless it has been renamed.
#[derive(Debug)]
struct Part(PathBuf);

impl Part {
    /// A new file beside the target.
    fn of(target: &Path, mode: u32) -> io::Result<(File, Self)> {
        let prefix = prefix(target);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(PART).permissions(Permissions::from_mode(mode));
        let made = builder.tempfile_in(folder_of(target)).and_then(|file| Ok(file.keep()?));
        let (file, path) = made.map_err(|error| cannot_make(&error, folder_of(target)))?;
        unfinished().push(path.clone());
        Ok((file, Self(path)))
    }

    /// Renames the file.
    fn become_file(self, target: &Path) -> io::Result<()> {
        std::fs::rename(&self.0, target)?;
        unfinished().retain(|path| *path != self.0);
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut all = unfinished();
        if let Some(at) = all.iter().position(|path| *path == self.0) {
            // Nothing can be done about a file that will not go.
            let _ = std::fs::remove_file(all.swap_remove(at));
        }
    }
}

impl NewFile {
    /// Begins the file that will be `to`; `-` is the standard output.
    ///
    /// # Errors
    /// `to` is a directory, or leads through a link that another user may have planted; or no file can be made beside
    /// it.
    pub fn create(to: &Path) -> io::Result<Self> {
        match Place::of(to)? {
            Place::File(target, old) => {
                // What replaces a file is private until it is whole; a first one has the mode that the user's mask gives.
                let mode = if old.is_some() { 0o600 } else { 0o666 };
                if let Some(file) = nameless_in(folder_of(&target), mode) {
                    let path = descriptor(&file);
                    return Ok(Self {
                        file,
                        path,
                        destination: Destination::To(Named { part: None, target, old }),
                    });
                }
                let (file, part) = Part::of(&target, mode)?;
                let path = part.0.clone();
                Ok(Self {
                    file,
                    path,
                    destination: Destination::To(Named { part: Some(part), target, old }),
                })
            }
            Place::Stream(stream) => {
                let file = nameless()?;
                let path = descriptor(&file);
                Ok(Self { file, path, destination: Destination::Into(stream) })
            }
        }
    }

    /// Where it can be written meanwhile. Writers may open it anew, but not replace it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the whole file to its target.
    ///
    /// # Errors
    /// It cannot be stored, as on a full disk, or cannot get its name.
    pub fn keep(mut self) -> io::Result<()> {
        match self.destination {
            Destination::To(named) => named.finish(&self.file),
            Destination::Into(stream) => {
                self.file.rewind()?;
                match io::copy(&mut self.file, &mut stream.open()?) {
                    // Who reads it has seen enough, as `head` does.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    copied => copied.map(drop),
                }
            }
        }
    }

    /// Gives the file its name at once, for a log that others read while it grows.
    ///
    /// # Errors
    /// As [`NewFile::keep`].
    pub fn grow(self) -> io::Result<File> {
        match self.destination {
            Destination::To(named) => named.finish(&self.file).map(|()| self.file),
            Destination::Into(stream) => stream.open(),
        }
    }
}

impl io::Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What stands under the target's name.
enum Place {
    /// A file, or nothing yet.
    File(PathBuf, Option<Rights>),
    /// A pipe, a terminal or a device: it is written to, not replaced.
    Stream(Stream),
}

/// What can only be written to. A pipe without a reader lets nobody open it, so that comes last.
#[derive(Debug)]
enum Stream {
    Stdout,
    /// A pipe, a device, or a link of procfs to an open descriptor.
    Other(PathBuf),
}

impl Stream {
    fn open(&self) -> io::Result<File> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout();
                stdout.flush()?;
                Ok(stdout.as_fd().try_clone_to_owned()?.into())
            }
            // A descriptor may lead to a file. What that holds so far stays: `/dev/stdout` after `>>`.
            Self::Other(path) => OpenOptions::new().append(true).open(path),
        }
    }
}

impl Place {
    fn of(to: &Path) -> io::Result<Self> {
        if to == Path::new(STDOUT) {
            return Ok(Self::Stream(Stream::Stdout));
        }
        if to.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(is_a_directory());
        }
        let mut path = to.to_owned();
        for _ in 0..LINKS_MAX {
            let meta = match std::fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Self::File(path, None));
                }
                meta => meta?,
            };
            if meta.is_file() {
                rustix::fs::accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS)?;
                return Ok(Self::File(path, Some(Rights::of(&meta))));
            } else if meta.is_dir() {
                return Err(is_a_directory());
            }
            let folder = folder_of(&path);
            refuse_planted(&path, &meta, folder)?;
            if !meta.is_symlink() || rustix::fs::statfs(folder)?.f_type == PROC_SUPER_MAGIC {
                return Ok(Self::Stream(Stream::Other(path)));
            }
            path = folder.join(std::fs::read_link(&path)?);
        }
        Err(rustix::io::Errno::LOOP.into())
    }
}

fn is_a_directory() -> io::Error {
    let what = "cannot write to a directory: name a file in it";
    io::Error::new(io::ErrorKind::IsADirectory, what)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether anybody can put files into a folder.
fn is_shared(folder: &Metadata) -> bool {
    folder.mode() & (OTHERS_WRITE | STICKY) != 0
}

/// Refuses a link or a pipe that another user may have planted where `path` was expected.
fn refuse_planted(path: &Path, meta: &Metadata, folder: &Path) -> io::Result<()> {
    let within = std::fs::metadata(folder)?;
    let is_ours = [geteuid().as_raw(), within.uid()].contains(&meta.uid());
    if is_ours || !is_shared(&within) {
        return Ok(());
    }
    let path = path.display();
    let owner = meta.uid();
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{path} belongs to another user ({owner}), and anybody can write to its folder: use another name"
        ),
    ))
}

/// A path to an open file without a name.
fn descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// A file without a name that can get one, where the file system has such files.
fn nameless_in(folder: &Path, mode: u32) -> Option<File> {
    let umask = umask()?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()?);
    // Kernels before 6.0 forget the mask for such files on file systems without ACLs.
    file.set_permissions(Permissions::from_mode(file.metadata().ok()?.mode() & !umask)).ok()?;
    Some(file)
}

/// The user's mask; none where procfs is not mounted, which also leads to files without names.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

/// Gives a file without a name its target's. No call does so where the target exists; so first another name.
fn link(file: &File, target: &Path) -> io::Result<()> {
    let path = descriptor(file);
    let folder = folder_of(target);
    let linked =
        tempfile::Builder::new().prefix(&prefix(target)).suffix(PART).make_in(folder, |name| {
            Ok(rustix::fs::linkat(CWD, &path, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
        });
    linked
        .and_then(|linked| Ok(linked.persist(target)?))
        .map_err(|error| cannot_make(&error, folder))
}

/// The target's name, with which that of its unfinished file begins.
fn prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!("{}.", &name[..name.floor_char_boundary(NAME_MAX)])
}

fn cannot_make(error: &io::Error, folder: &Path) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound {
        return rustix::io::Errno::NOENT.into();
    }
    // The name that was tried says nothing to the user.
    let cause = error.to_string();
    let cause = cause.split(" at path ").next().unwrap_or_default();
    io::Error::new(error.kind(), format!("cannot make a file in {}: {cause}", folder.display()))
}

/// Gives a file the mode of the one that it replaces, and its owner and group where that is allowed. One that another
/// user may have planted passes on no rights.
fn be_as(file: &File, old: Rights, folder: &Path) -> io::Result<()> {
    let new = Rights::of(&file.metadata()?);
    let is_foreign = new.user != old.user;
    let is_planted = is_foreign && is_shared(&std::fs::metadata(folder)?);
    let has_group = new.group == old.group || fchown(file, None, Some(old.group)).is_ok();
    if is_foreign && !is_planted {
        // Only root may. Others leave a file of their own.
        let _ = fchown(file, Some(old.user), None);
    }
    let keeps = if has_group && !is_planted { 0o777 } else { 0o604 };
    file.set_permissions(Permissions::from_mode(old.mode & keeps))
}

/// Puts a file on the disk. Where a file system knows no such thing, renaming is all that can be had.
fn synced(file: &File) -> io::Result<()> {
    use rustix::io::Errno;
    match rustix::fs::fsync(file) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests;
