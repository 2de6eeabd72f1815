//! What `slow attach` is given, as a user names it: a process by number or name, the unit of a service manager, a
//! container. Units and containers are found by the names of their control groups, which systemd, Docker, Podman,
//! containerd, CRI-O, LXC and systemd-nspawn make; so no program and no service is asked.

use super::SlowError;
use super::group::processes;
use schedlab_model::Pid;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `1234`: a process, with its children.
    Process(Pid),
    /// `nginx`: each process of that name, with its children.
    Name(String),
    /// `unit:nginx`: a unit of systemd.
    Unit(String),
    /// `container:4f5e`: a container, by the beginning of its ID, or its name with LXC and nspawn.
    Container(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub processes: Vec<Pid>,
    pub groups: Vec<PathBuf>,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let empty = |form: &str| format!("missing name in '{text}': use a name as in {form}");
        let named = |rest: &str, form: &str, make: fn(String) -> Self| match rest {
            "" => Err(empty(form)),
            rest if rest.contains('/') => Err(format!(
                "invalid target '{text}': use a name as in {form}, or --cgroup DIR for a path"
            )),
            rest => Ok(make(rest.to_owned())),
        };
        if let Some(rest) = text.strip_prefix("unit:") {
            return named(rest, "unit:nginx", Self::Unit);
        }
        if let Some(rest) = text.strip_prefix("container:") {
            return named(rest, "container:4f5e2a", Self::Container);
        }
        if let Some(rest) = text.strip_prefix("name:") {
            return named(rest, "name:nginx", Self::Name);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            let wrong = || format!("invalid process number '{text}'");
            return text.parse().map(|pid| Self::Process(Pid(pid))).map_err(|_| wrong());
        }
        if let Some((kind, _)) = text.split_once(':') {
            return Err(format!(
                "unknown kind '{kind}:': use unit:NAME, container:ID, name:NAME, NAME or a \
                 process number"
            ));
        }
        named(text, "nginx", Self::Name)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "{pid}"),
            Self::Name(name) => write!(f, "name:{name}"),
            Self::Unit(name) => write!(f, "unit:{name}"),
            Self::Container(id) => write!(f, "container:{id}"),
        }
    }
}

impl Target {
    /// Finds it on this machine.
    ///
    /// # Errors
    /// [`SlowError::Usage`] when there is nothing of that name, or several.
    pub fn find(&self) -> Result<Found, SlowError> {
        self.find_in(&schedlab_sys::cgroup::mounts(), Path::new("/proc"))
    }

    fn find_in(&self, mounts: &[PathBuf], proc: &Path) -> Result<Found, SlowError> {
        match self {
            Self::Process(pid) => Ok(Found { processes: vec![*pid], ..Found::default() }),
            Self::Name(name) => {
                let processes = by_name(name, proc);
                let why = "`ps -e` shows the names of processes";
                match processes.is_empty() {
                    true => {
                        Err(SlowError::Usage(format!("no process has the name '{name}': {why}")))
                    }
                    false => Ok(Found { processes, ..Found::default() }),
                }
            }
            Self::Unit(name) => self.group(mounts, &|group, _| is_unit(group, name)),
            Self::Container(id) => {
                self.group(mounts, &|group, above| is_container(group, above, id))
            }
        }
    }

    /// The one group that `is` one (its name, and that of the group above).
    fn group(
        &self,
        mounts: &[PathBuf],
        is: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Found, SlowError> {
        let mut empty = None;
        for mount in mounts {
            let mut all = Vec::new();
            walk(mount, is, DEEPEST, &mut all);
            empty = empty.or_else(|| all.first().cloned());
            all.retain(|dir| !processes(dir).is_empty());
            match all.len() {
                // A hierarchy may not have it, or have it without its processes.
                0 => {}
                1 => return Ok(Found { groups: all, ..Found::default() }),
                _ => {
                    let list: Vec<String> =
                        all.iter().map(|dir| dir.display().to_string()).collect();
                    return Err(SlowError::Usage(format!(
                        "{self} matches all of {}: use a longer name, or --cgroup with one of them",
                        list.join(", ")
                    )));
                }
            }
        }
        let how = match self {
            Self::Unit(name) => format!("`systemctl status {name}` shows whether it runs"),
            _ => "`docker ps` or `podman ps` shows the IDs of containers".to_owned(),
        };
        Err(SlowError::Usage(match empty {
            Some(dir) => format!("{self} has no process: {} is empty; {how}", dir.display()),
            None if mounts.is_empty() => {
                format!("cannot find {self}: control groups are not mounted")
            }
            None => format!("no control group belongs to {self}: {how}"),
        }))
    }
}

/// Groups lie no deeper: a container of a pod of a slice of a user is at 8.
const DEEPEST: usize = 16;

/// Groups that are what is looked for, not those within them.
fn walk(dir: &Path, is: &dyn Fn(&str, &str) -> bool, deep: usize, all: &mut Vec<PathBuf>) {
    let above = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is(&name, &above) {
            all.push(path);
        } else if deep > 0 {
            walk(&path, is, deep - 1, all);
        }
    }
}

fn is_unit(group: &str, name: &str) -> bool {
    group == name && name.contains('.')
        || [".service", ".scope", ".slice"]
            .iter()
            .any(|kind| group.strip_suffix(kind).is_some_and(|stem| stem == name))
}

const ID: usize = 64;

fn is_container(group: &str, above: &str, id: &str) -> bool {
    let stem = group.strip_suffix(".scope").unwrap_or(group);
    let prefixes = ["docker-", "libpod-", "cri-containerd-", "crio-"];
    let bare = prefixes.iter().find_map(|prefix| stem.strip_prefix(prefix)).unwrap_or(stem);
    let is_id = bare.len() == ID && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && bare.starts_with(id)
        || group.strip_prefix("lxc.payload.") == Some(id)
        || above == "lxc" && group == id
        // systemd writes '-' of a name as \x2d.
        || stem.strip_prefix("machine-").map(|name| name.replace("\\x2d", "-")).as_deref() == Some(id)
}

/// Processes that are called so, by the kernel or by their command line; none of the kernel's own, nor this one.
fn by_name(name: &str, proc: &Path) -> Vec<Pid> {
    let us = Pid(std::process::id().cast_signed());
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    let read = |pid: Pid, file: &str| {
        std::fs::read(proc.join(pid.to_string()).join(file)).unwrap_or_default()
    };
    let is = |pid: &Pid| {
        let line = read(*pid, "cmdline");
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        // A login shell has a '-' before its name; a server may write more behind it ("nginx: worker").
        let first = String::from_utf8_lossy(first).into_owned();
        let first = first.trim_start_matches('-').split([' ', ':']).next().unwrap_or_default();
        let base = first.rsplit('/').next().unwrap_or_default();
        let comm = String::from_utf8_lossy(&read(*pid, "comm")).trim_end().to_owned();
        !line.is_empty() && *pid != us && (base == name || comm == name)
    };
    let mut all: Vec<Pid> = pids.filter(is).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    /// A hierarchy with a process in each of these groups.
    fn tree(groups: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (index, group) in groups.iter().enumerate() {
            let group = dir.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join("cgroup.procs"), format!("{}\n", 100 + index)).unwrap();
        }
        dir
    }

    fn found(text: &str, tree: &tempfile::TempDir) -> Result<String, String> {
        let found = target(text).find_in(&[tree.path().to_owned()], Path::new("/nowhere"));
        let found = found.map_err(|error| error.to_string())?;
        let group = found.groups[0].strip_prefix(tree.path()).unwrap().display().to_string();
        assert_eq!((found.groups.len(), found.processes.len()), (1, 0));
        Ok(group)
    }

    #[test]
    fn a_target_is_read_by_its_form() {
        assert_eq!(target("1234"), Target::Process(Pid(1_234)));
        assert_eq!(target("nginx"), Target::Name("nginx".into()));
        assert_eq!(target("name:1234"), Target::Name("1234".into()));
        assert_eq!(target("unit:nginx"), Target::Unit("nginx".into()));
        assert_eq!(target("container:4f"), Target::Container("4f".into()));
        for (text, why) in [
            ("unit:", "as in unit:nginx"),
            ("pod:x", "unknown kind 'pod:'"),
            ("", "as in nginx"),
            ("/bin/nginx", "--cgroup"),
            ("99999999999", "invalid process number"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_unit_is_found_by_its_group_in_any_slice() {
        let tree = tree(&[
            "system.slice/nginx.service",
            "system.slice/nginx-helper.service",
            "user.slice/user-0.slice/session-3.scope",
            "system.slice/empty.service",
        ]);
        assert_eq!(found("unit:nginx", &tree).unwrap(), "system.slice/nginx.service");
        assert_eq!(found("unit:nginx.service", &tree).unwrap(), "system.slice/nginx.service");
        let scope = found("unit:session-3.scope", &tree).unwrap();
        assert_eq!(scope, "user.slice/user-0.slice/session-3.scope");
        // A slice is all that is below it.
        assert_eq!(found("unit:system", &tree).unwrap(), "system.slice");
        let none = found("unit:apache2", &tree).unwrap_err();
        assert!(
            none.contains("no control group belongs to unit:apache2")
                && none.contains("systemctl status")
        );
        let procs = tree.path().join("system.slice/empty.service/cgroup.procs");
        std::fs::write(procs, "").unwrap();
        let empty = found("unit:empty", &tree).unwrap_err();
        assert!(empty.contains("unit:empty has no process"), "{empty}");
    }

    #[test]
    fn a_container_is_found_as_each_engine_names_its_group() {
        let id = |digit: char| digit.to_string().repeat(ID);
        let groups = [
            format!("docker/{}", id('a')),
            format!("system.slice/docker-{}.scope", id('b')),
            format!("machine.slice/libpod-{}.scope", id('c')),
            format!("machine.slice/libpod-conmon-{}.scope", id('c')),
            format!("kubepods.slice/pod1/cri-containerd-{}.scope", id('d')),
            "lxc/web".to_owned(),
            "lxc.payload.db".to_owned(),
            "machine.slice/machine-old\\x2dbox.scope".to_owned(),
        ];
        let tree = tree(&groups.iter().map(String::as_str).collect::<Vec<_>>());
        let names = ["aaaa", "bbbb", "cccc", "", "dddd", "web", "db", "old-box"];
        for (name, group) in names.iter().zip(&groups).filter(|(name, _)| !name.is_empty()) {
            assert_eq!(&found(&format!("container:{name}"), &tree).unwrap(), group);
        }
        let none = found("container:ffff", &tree).unwrap_err();
        assert!(none.contains("docker ps"), "{none}");
        let twin = format!("docker/{}b", "a".repeat(ID - 1));
        std::fs::create_dir_all(tree.path().join(&twin)).unwrap();
        std::fs::write(tree.path().join(&twin).join("cgroup.procs"), "7\n").unwrap();
        let several = found("container:aaaa", &tree).unwrap_err();
        assert!(several.contains("matches all of") && several.contains("longer"), "{several}");
    }

    #[test]
    fn processes_are_found_by_either_name_and_the_kernels_own_are_not() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, comm, line) in [
            ("11", "nginx", "nginx: master process\0"),
            ("12", "java", "/opt/jdk/bin/java\0-jar\0nginx\0"),
            ("13", "nginx", ""),
            ("14", "python3", "/usr/sbin/nginx\0"),
            ("15", "a-very-long-nam", "/usr/bin/a-very-long-name-indeed\0"),
        ] {
            std::fs::create_dir(proc.path().join(pid)).unwrap();
            std::fs::write(proc.path().join(pid).join("comm"), format!("{comm}\n")).unwrap();
            std::fs::write(proc.path().join(pid).join("cmdline"), line).unwrap();
        }
        let find = |name: &str| target(name).find_in(&[], proc.path()).map(|found| found.processes);
        assert_eq!(find("nginx").unwrap(), [Pid(11), Pid(14)]);
        assert_eq!(find("java").unwrap(), [Pid(12)]);
        assert_eq!(find("a-very-long-name-indeed").unwrap(), [Pid(15)]);
        let none = find("apache2").unwrap_err().to_string();
        assert!(none.contains("no process has the name 'apache2'"), "{none}");
    }
}
